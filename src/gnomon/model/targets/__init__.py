"""Targets: what tasks call, and what tenants may let them call."""
