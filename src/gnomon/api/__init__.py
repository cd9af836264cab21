"""The HTTP API. Nothing is acknowledged before its commit."""
