"""Nodes that wait: for a signal that somebody sends to the run, or for a time. No task of theirs
runs, so they take no slot."""

from datetime import UTC, datetime

import msgspec

from gnomon.workflow.template import CannotRender, TemplateValues, rendered_text

MOST_SIGNALS = 1_000  # names that are kept for a run
MOST_SIGNAL_BYTES = 65_536
_YEARS = range(1971, 2200)


class NodeWait(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node waits for: a signal, for so many seconds at the most; or only for so many
    seconds; or until a moment."""

    signal: str | None = None
    seconds: float | None = None
    until: str | None = None  # RFC 3339, or a placeholder of it
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # once the time of a signal is over


def moment_of(wait: NodeWait, values: TemplateValues) -> datetime | None:
    """Until when it waits, where that is a moment. Raises CannotRender."""
    if wait.until is None:
        return None
    text = rendered_text(wait.until, values)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CannotRender(f"until: {text[:100]!r} is no moment, such as {_SAMPLE}") from error
    if moment.tzinfo is None:
        raise CannotRender(f"until: {text} has no zone; write it such as {_SAMPLE}")
    if moment.year not in _YEARS:
        raise CannotRender(f"until: must be in the years {_YEARS[0]} to {_YEARS[-1]}")
    return moment.astimezone(UTC)


def overdue(wait: NodeWait) -> str:
    """Why a node has failed whose signal did not come."""
    return f"the signal {wait.signal} did not come within {wait.seconds:g} s"


_SAMPLE = "2026-01-01T09:00:00Z"
