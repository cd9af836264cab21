"""The origin of a task: what it keeps of the request that submitted it.

Its correlation id, by which people find what belongs together; and the context of its trace (W3C
Trace Context), where that is sampled.
"""

import re
from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec

MOST_CORRELATION_CHARACTERS = 128
MOST_STATE_CHARACTERS = 512  # that everybody has to pass on
_MOST_STATE_MEMBERS = 32

_CORRELATION = re.compile(rf"[\x21-\x7e]{{1,{MOST_CORRELATION_CHARACTERS}}}")
# Also where it is read: plain SQL stores what it likes, and receivers are told it in a header.
_StoredCorrelation = Annotated[str, msgspec.Meta(pattern=rf"\A{_CORRELATION.pattern}\Z")]
# A later version may add parts; version ff is none.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/]{0,240}(@[a-z][a-z0-9_\-*/]{0,13})?="
    r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_VERSION, _NO_VERSION = "00", "ff"
_SAMPLED = 1


class TraceContext(NamedTuple):
    """A place in a sampled trace: below which span that follows belongs, as headers tell it."""

    trace_id: str  # 32 hexadecimal digits
    span_id: str  # 16 of them
    state: str | None = None  # `tracestate`

    @property
    def header(self) -> str:
        """As `traceparent`."""
        return f"{_VERSION}-{self.trace_id}-{self.span_id}-01"


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """As it is stored with a task. A task that has none keeps nothing."""

    correlation_id: _StoredCorrelation | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def trace(self) -> TraceContext | None:
        """None: the task belongs to no sampled trace."""
        return sampled(self.traceparent, self.tracestate)


def is_correlation_id(text: str) -> bool:
    """Whether it may be one: visible ASCII characters, which fit into headers and lines of logs."""
    return _CORRELATION.fullmatch(text) is not None


def origin_of(correlation_id: str | None, trace: TraceContext | None) -> Origin | None:
    """What is stored of them; None: there is nothing."""
    if trace is None:
        return None if correlation_id is None else Origin(correlation_id)
    return Origin(correlation_id, trace.header, trace.state)


def sampled(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """The trace that two headers name, if it is sampled. None also for a traceparent that is
    malformed: whoever reads one must ignore it."""
    if traceparent is None:
        return None
    found = _PARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    malformed = version == _NO_VERSION or (version == _VERSION and more is not None)
    if malformed or not int(trace_id, 16) or not int(span_id, 16):
        return None
    if not int(flags, 16) & _SAMPLED:
        return None
    return TraceContext(trace_id, span_id, _state(tracestate))


def is_unsampled(traceparent: str | None) -> bool:
    """Whether it is a trace that its maker has decided not to sample."""
    found = None if traceparent is None else _PARENT.fullmatch(traceparent)
    return found is not None and not int(found[4], 16) & _SAMPLED


def _state(header: str | None) -> str | None:
    """As it is passed on. None where a member is malformed (then all of them are dropped, and the
    traceparent is not). Of one that is too long, the first members are kept."""
    if not header:
        return None
    members = [each for part in header.split(",") if (each := part.strip(" \t"))]
    if len(members) > _MOST_STATE_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return None
    kept = ""
    for member in members:
        longer = f"{kept},{member}" if kept else member
        if len(longer) > MOST_STATE_CHARACTERS:
            break
        kept = longer
    return kept or None


def correlation_id_of(origin: Origin | None, task_id: UUID) -> str:
    """The correlation id of a task: the one that was given, else its own id."""
    if origin is None or origin.correlation_id is None:
        return str(task_id)
    return origin.correlation_id


def trace_id_of(origin: Origin | None) -> str | None:
    """The id of the trace that a task belongs to, if it is sampled."""
    trace = None if origin is None else origin.trace
    return None if trace is None else trace.trace_id
