"""Requests: their bodies, queries, paths, keys and origins, read within limits."""
