"""Keys, tenants, limits, task types, secrets, nodes and usage."""
