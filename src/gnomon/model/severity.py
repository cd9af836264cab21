"""How much an event matters."""

from enum import StrEnum


class Severity(StrEnum):
    """Anything but information waits until somebody has taken note of it."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


SLA_MISSED = "cron.sla_missed"  # as the store and the API call them
BREAKER_OPENED, BREAKER_CLOSED = "breaker.opened", "breaker.closed"
DEAD_LETTERED = "tasks.dead_lettered"

SEVERITIES = {
    SLA_MISSED: Severity.WARNING,
    BREAKER_OPENED: Severity.WARNING,
    BREAKER_CLOSED: Severity.INFO,
    DEAD_LETTERED: Severity.ERROR,
}


def severity_of(kind: str) -> Severity:
    """Of an event of a kind; one that is not known here may be of a newer version."""
    return SEVERITIES.get(kind, Severity.WARNING)
