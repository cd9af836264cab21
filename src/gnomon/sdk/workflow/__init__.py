"""Workflows that are written as Python functions."""
