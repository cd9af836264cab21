"""Gnomon: a distributed task scheduler you run yourself."""

__version__ = "0.1.0"
