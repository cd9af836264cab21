"""Outcomes of executions, and what follows from them."""
