"""Measures of Gnomon on a PostgreSQL: for `gnomon bench`, and for `bench/`, which adds peers."""
