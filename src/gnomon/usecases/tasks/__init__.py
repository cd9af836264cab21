"""Submitting, changing, explaining and re-driving tasks."""
