"""The HTTP API: requests checked, stored, answered. Nothing is acknowledged before its commit."""
