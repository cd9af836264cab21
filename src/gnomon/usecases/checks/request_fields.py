"""Types of the fields of requests, with their limits: they check values and describe them."""

from datetime import datetime
from typing import Annotated

import msgspec

from gnomon.model.tasks.origin import MOST_CORRELATION_CHARACTERS
from gnomon.model.tasks.task import LEAST_TIMEOUT

LONGEST_TIMEOUT = 24 * 3600.0
LONGEST_DELAY = 175 * 365.25 * 24 * 3600.0
LONGEST_WAIT = 30.0  # for a task to end, in one request
DEFAULT_LIMIT = 50
MOST_NAME_CHARACTERS = 200
ONE_DAY = 24 * 3600.0
MOST_BACKFILLED = 10_000  # runs, in one request and by policy
MOST_PREVIEWED = 1000
MOST_NOTE_CHARACTERS = 1000
_LEAST = 0.001  # seconds

TaskType = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Queue = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Tags = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=32)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
CorrelationId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MOST_CORRELATION_CHARACTERS,
        pattern="^[!-~]+$",
        description="Visible ASCII characters; without one, that of the header X-Request-ID",
    ),
]
Moment = Annotated[
    datetime, msgspec.Meta(tz=True, description="RFC 3339, with a zone: 2026-01-01T09:00:00Z")
]
Delay = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_DELAY)]
Timeout = Annotated[float, msgspec.Meta(ge=LEAST_TIMEOUT, le=LONGEST_TIMEOUT)]
WaitSeconds = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=LONGEST_WAIT, description="Answer when the task has ended, or after this long"
    ),
]
ExpiresAfter = Annotated[
    float,
    msgspec.Meta(ge=_LEAST, le=LONGEST_DELAY, description="Seconds after the task is due"),
]
Json = Annotated[msgspec.Raw, msgspec.Meta(description="Any JSON value")]

JobName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARACTERS)]
Source = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Reason = Annotated[str, msgspec.Meta(max_length=1000)]
ResolutionNote = Annotated[
    str, msgspec.Meta(max_length=MOST_NOTE_CHARACTERS, description="Kept with the resolution")
]
Expression = Annotated[
    str,
    msgspec.Meta(
        max_length=1000, description="Five fields, or six with the second first: 0 9 * * MON-FRI"
    ),
]
Interval = Annotated[float, msgspec.Meta(ge=1, description="Whole seconds, up to ten years")]
Phase = Annotated[
    str,
    msgspec.Meta(
        max_length=100,
        description="A local time of day, 09:07, or a moment, 2026-01-01T09:07:00Z",
    ),
]
Zone = Annotated[str, msgspec.Meta(max_length=100, description="An IANA name: Europe/Berlin")]
Template = Annotated[
    msgspec.Raw, msgspec.Meta(description='Any JSON; strings may hold "{{ fire_time }}" and more')
]
MissedAfter = Annotated[float, msgspec.Meta(ge=1, le=ONE_DAY)]
BackfillLimit = Annotated[int, msgspec.Meta(ge=1, le=MOST_BACKFILLED)]
Window = Annotated[float, msgspec.Meta(ge=_LEAST, le=LONGEST_DELAY)]
MaxRuns = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Jitter = Annotated[float, msgspec.Meta(ge=0, le=ONE_DAY)]
Sla = Annotated[float, msgspec.Meta(ge=_LEAST, le=LONGEST_DELAY)]
WarnAfter = Annotated[float, msgspec.Meta(ge=_LEAST, le=LONGEST_TIMEOUT)]
DefinitionVersion = Annotated[
    int, msgspec.Meta(ge=1, description="Change the job only if it still has this version")
]
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_PREVIEWED)]


class Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: an unknown field is an error."""
