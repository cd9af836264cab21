"""Values of stores of tenants, their keys, secrets, limits and usage."""
