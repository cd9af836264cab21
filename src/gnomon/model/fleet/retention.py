"""Kinds of rows that are kept for a time only, besides finished tasks."""

from enum import StrEnum


class RowKind(StrEnum):
    """Rows that expire, by kind."""

    KEYS = "keys"  # idempotency keys
    EVENTS = "events"
    BUCKETS = "buckets"  # of limits
    USAGE = "usage"
    SESSIONS = "sessions"  # of usage, which are added up when they have ended
    NODES = "nodes"  # that ended
    PROGRESS = "progress"  # of executions that ended
    BULK_OPERATIONS = "bulk_operations"  # that ended
    ACTIVITY = "activity"  # of minutes and hours
    RESOLUTIONS = "resolutions"  # of dead letters
    LEVELS = "levels"  # of service, by the week
    TRANSITIONS = "transitions"  # of tasks
    RUNS = "workflow_runs"  # that ended, with their outputs and signals
    BATCHES = "batches"  # that ended, and have no dead letters
    COPIES = "copies"  # of tasks: which were made from which
