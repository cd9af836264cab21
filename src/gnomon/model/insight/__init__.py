"""Insight: what is told, counted and explained of tasks and nodes."""
