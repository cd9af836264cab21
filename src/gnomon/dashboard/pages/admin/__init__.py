"""Limits, task types, tenants, keys, nodes, usage and events."""
