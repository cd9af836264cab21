"""Log lines on stderr: JSON for machines, colours for a terminal."""

import logging
import os
import sys
from typing import Any, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict

from gnomon.model.text import is_line
from gnomon.observe.log_fields import label_request
from gnomon.settings import OutputSettings

_TOLD_BY_US = ("aiormq",)  # libraries that log each of the errors which they also raise


class Scope(Protocol):
    """Where a line is logged from, as far as that matters to it."""

    level: int  # the lowest one that it lets through, in any place

    def label(self, logger: Any, name: str, event: EventDict) -> EventDict:
        """Say in a line where it was logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record of the standard library is printed."""


class _Stderr:
    """The stderr of the time of writing. Loggers are kept, and whoever has called a command
    from within Python may have put a stream of its own there for only as long."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure(settings: OutputSettings, scope: Scope | None = None) -> None:
    """Set up structlog for this process, and send the standard library's records the same way."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    terminal = sys.stderr.isatty()
    console = terminal if settings.log_format == "auto" else settings.log_format == "console"
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        label_request,
        *([] if scope is None else [scope.label]),
    ]
    ending = _for_people(terminal) if console else _for_machines()
    structlog.configure(
        processors=shared + ending,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=True,
    )
    _route_standard_library(shared, ending, level, scope)


# Tracebacks come without local variables: those hold payloads, secrets and passwords.


def _for_people(terminal: bool) -> list[Any]:
    return [
        _one_line,
        structlog.dev.ConsoleRenderer(
            colors=terminal and "NO_COLOR" not in os.environ,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _for_machines() -> list[Any]:
    transform = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [
        structlog.processors.ExceptionRenderer(transform),
        structlog.processors.JSONRenderer(),
    ]


def _route_standard_library(
    shared: list[Any], ending: list[Any], level: int, scope: Scope | None
) -> None:
    handler = logging.StreamHandler(cast("TextIO", _Stderr()))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _name_logger, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level_of_others(level))
    for chatty in _TOLD_BY_US:
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    if scope is not None:
        root.setLevel(min(scope.level, root.level))
        handler.addFilter(scope.filter)


def level_of_others(level: int) -> int:
    """From which on lines of libraries are printed: their small talk is not ours."""
    return max(level, logging.WARNING)


def _one_line(_: Any, __: str, event: EventDict) -> EventDict:
    """Escape what could forge a line, or move the cursor, in what others have chosen. (JSON escapes
    it by itself, and the message of a line is its author's.)"""
    for name, value in event.items():
        if name != "event" and isinstance(value, str) and not is_line(value):
            event[name] = value.encode("unicode_escape").decode()
    return event


def _name_logger(_: Any, __: str, event: EventDict) -> EventDict:
    event["logger"] = event["_record"].name
    return event
