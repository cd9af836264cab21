"""Tasks: what is submitted, where it is in its life, and what it keeps."""
