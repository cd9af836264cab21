"""Batches on PostgreSQL: their rows, their members, and the steps that a chore takes."""
