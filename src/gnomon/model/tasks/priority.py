"""The four priorities. A task's priority is the lane it waits in."""

from enum import IntEnum, StrEnum


class Lane(IntEnum):
    """Lower comes first, here and in the database."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 2
    LOW = 3


class Priority(StrEnum):
    """The names of the lanes."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"
