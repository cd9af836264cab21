"""Checks and rules that several use cases share."""
