"""A task is judged by what is stored of it, however late somebody looks."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gnomon.model.insight.service_level import (
    EndedTask,
    Judgement,
    LiveTask,
    PastExecution,
    WatchedTask,
    judge,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SLOT_WAIT = timedelta(seconds=10)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def live(**values: Any) -> LiveTask:
    return LiveTask(
        **{
            "due_at": at(-60), "started_at": None, "attempt": 0, "fence": 0, "running": False,
            "paused": False, "dead": False,
        } | values
    )  # fmt: skip


def judged(**values: Any) -> Judgement:
    return judge(WatchedTask(tenant_id="t", task_id=UUID(int=1), **values), NOW, SLOT_WAIT)


START = {"sla_seconds": 5.0, "start_by": at(-55)}
RUN = {"warn_after_seconds": 30.0}


@pytest.mark.parametrize(
    ("found", "kept", "look_at"),
    [
        ({"live": live()}, False, None),
        ({"live": live(), "start_by": at(3)}, None, at(3)),
        ({"live": live(paused=True)}, None, at(600)),
        ({"live": live(dead=True)}, False, None),
        # It runs: claimed late; in time; in time, but it may be released while it waits for a slot.
        ({"live": live(running=True, started_at=at(-50), attempt=1)}, False, None),
        ({"live": live(running=True, started_at=at(-56), attempt=1)}, True, None),
        (
            {"live": live(running=True, started_at=at(-4), attempt=1), "start_by": at(-2)},
            None,
            at(6),
        ),
        # Its first execution failed in time, its second runs.
        (
            {"live": live(running=True, started_at=at(-1), attempt=2), "first_started_at": at(-58)},
            True,
            None,
        ),
        ({"ended": EndedTask(at(-20), at(-56), cancelled=False)}, True, None),
        ({"ended": EndedTask(at(-20), at(-54), cancelled=False)}, False, None),
        ({"ended": EndedTask(at(-20), None, cancelled=False)}, False, None),  # expired
        ({"ended": EndedTask(at(-57), None, cancelled=True)}, None, None),
        ({"ended": EndedTask(at(-20), None, cancelled=True)}, False, None),
        ({}, None, None),  # deleted
    ],
)
def test_the_first_start_is_judged_by_its_deadline(
    found: dict[str, Any], kept: bool | None, look_at: datetime | None
) -> None:
    told = judged(**(START | found))
    assert (told.start_kept, told.look_at) == (kept, look_at)
    assert told.slow is None


@pytest.mark.parametrize(
    ("found", "slow", "kept", "look_at"),
    [
        # It waits: looked at when it could be slow at the earliest, more seldom if it waits long.
        ({"live": live(due_at=at(9))}, None, None, at(39)),
        ({"live": live()}, None, None, at(30)),
        ({"live": live(due_at=at(-1000))}, None, None, at(100)),
        ({"live": live(running=True, started_at=at(-20), attempt=1, fence=1)}, None, None, at(10)),
        (
            {"live": live(running=True, started_at=at(-31), attempt=1, fence=1)},
            PastExecution(1, 1, at(-31)),
            False,
            at(30),
        ),
        # Told already: nothing new, and the task is counted once.
        (
            {
                "live": live(running=True, started_at=at(-31), attempt=1, fence=1),
                "told_fence": 1,
                "slow": True,
            },
            None,
            None,
            at(30),
        ),
        # It ended between two looks.
        (
            {
                "ended": EndedTask(at(-5), at(-40), cancelled=False),
                "last_slow": PastExecution(3, 2, at(-40), at(-5)),
            },
            PastExecution(3, 2, at(-40), at(-5)),
            False,
            None,
        ),
        ({"ended": EndedTask(at(-35), at(-40), cancelled=False)}, None, True, None),
        ({"ended": EndedTask(at(-35), None, cancelled=True)}, None, None, None),  # never ran
        ({"live": live(dead=True, started_at=at(-40), attempt=4)}, None, True, None),
    ],
)
def test_an_execution_is_slow_once(
    found: dict[str, Any],
    slow: PastExecution | None,
    kept: bool | None,
    look_at: datetime | None,
) -> None:
    told = judged(**(RUN | found))
    assert (told.slow, told.run_kept, told.look_at) == (slow, kept, look_at)
    assert told.start_kept is None


def test_both_levels_are_looked_at_by_the_earlier_time() -> None:
    both = START | RUN | {"start_by": at(4), "live": live(due_at=at(-1))}
    assert judged(**both).look_at == at(4)
    started = both | {"live": live(due_at=at(-1), running=True, started_at=at(-15), attempt=1)}
    told = judged(**started)
    assert (told.start_kept, told.look_at) == (True, at(15))
