"""Kafka as a meeting place: topics of calls, answers and beats, which keep for a minute what nobody
reads again. Each end reads one partition from its end, without a group; whether others are there is
known by their beats.

Next: `topics.py` makes the topics, `client.py` has the threads, `link.py` is the `PipeLink`.
"""
