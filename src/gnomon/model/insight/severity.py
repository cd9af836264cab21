"""How much an event matters."""

from enum import StrEnum


class Severity(StrEnum):
    """Anything but information waits until somebody has taken note of it."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
