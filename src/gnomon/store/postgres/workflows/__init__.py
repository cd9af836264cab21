"""Workflows on PostgreSQL: definitions, runs, and the steps that no settling statement takes."""
