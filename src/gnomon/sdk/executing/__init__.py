"""Executing a handler: its context, its dependencies, and its transaction."""
