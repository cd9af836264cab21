"""Defining, changing and previewing recurring jobs."""
