"""Feeds of outcomes on PostgreSQL."""
