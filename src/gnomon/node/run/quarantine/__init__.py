"""Suspects, in child processes of the node."""
