"""Log lines of handlers: which execution they are of, and how many of them are printed.

A handler logs by the standard library (or by structlog); what it prints goes where it always went.
"""

import logging
from typing import Any

import structlog
from structlog.typing import EventDict

from gnomon.observe.logging import level_of_others
from gnomon.sdk.executing.context import TaskContext, current
from gnomon.settings import OutputSettings

log = structlog.get_logger("gnomon.node.run")

BURST = 1000  # lines of an execution that are printed at once
PER_SECOND = 100.0  # and afterwards
# Handlers submit by it: a line for each request would be in the log of every one that does.
_REQUESTS = "httpx"


class LineBudget:
    """How many more lines an execution may print."""

    __slots__ = ("_at", "_left", "left_out")

    def __init__(self, now: float) -> None:
        self._at = now
        self._left = float(BURST)
        self.left_out = 0  # since the last that was printed

    def takes(self, now: float) -> bool:
        """Whether a line that is logged now is printed."""
        self._left = min(BURST, self._left + max(0.0, now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            self.left_out += 1
            return False
        self._left -= 1
        return True


class HandlerScope:
    """`Scope` of the executions that run in this process. Lines of a handler are printed from a
    level of their own on; of one that logs without end, only so many."""

    def __init__(self, settings: OutputSettings) -> None:
        levels = logging.getLevelNamesMapping()
        self.level = levels[settings.handler_log_level.upper()]
        self._others = level_of_others(levels[settings.log_level.upper()])

    def label(self, _: Any, __: str, event: EventDict) -> EventDict:
        context = current.get()
        if context is not None:
            event["task_id"] = str(context.task_id)
            event["task_type"] = context.task_type
            event["attempt"] = context.attempt
            event["tenant"] = context.tenant_id
            if context.correlation_id != event["task_id"]:
                event["correlation_id"] = context.correlation_id
        return event

    def filter(self, record: logging.LogRecord) -> bool:
        context = current.get()
        if context is None or record.name == _REQUESTS:
            return record.levelno >= self._others
        if record.levelno < self.level:
            return False
        budget = context.log_lines
        if budget is None:
            budget = context.log_lines = LineBudget(record.created)
        before = budget.left_out
        if not budget.takes(record.created):
            return False
        if before:
            budget.left_out = 0
            _tell(before)
        return True


def tell_left_out(context: TaskContext) -> None:
    """Say how many of the last lines of an execution were not printed. It has ended."""
    budget = context.log_lines
    if budget is not None and budget.left_out:
        token = current.set(context)
        try:
            _tell(budget.left_out)
        finally:
            current.reset(token)


def _tell(lines: int) -> None:
    log.warning("a handler logs too much: lines are left out", lines=lines)
