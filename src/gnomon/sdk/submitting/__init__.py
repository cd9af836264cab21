"""Submitting tasks of handlers, and waiting for their results."""
