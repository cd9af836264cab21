"""Tasks, dead letters and bulk operations."""
