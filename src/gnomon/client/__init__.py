"""A small HTTP client of the API, for the command line. Next: the Python SDK."""
