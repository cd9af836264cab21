"""Workflows: definitions, and runs of them."""
