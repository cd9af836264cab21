"""Cron jobs that are declared beside their handlers."""

from typing import Any, NamedTuple


class DeclaredCron(NamedTuple):
    """A cron job of an app, for whoever synchronises it."""

    name: str
    handler: str
    fields: dict[str, Any]
