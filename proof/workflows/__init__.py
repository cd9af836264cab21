"""Runs of random workflows on a real PostgreSQL, compared with the pure model after every event."""
