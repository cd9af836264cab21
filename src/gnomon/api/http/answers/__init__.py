"""Answers: their headers, problems, streams, and how pages read."""
