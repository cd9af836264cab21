"""Handlers: Python functions that run tasks, declared with `Gnomon` and submitted by name.

Everything here can be imported with msgspec and httpx alone: a program that only submits needs
neither a server nor PostgreSQL.
"""
