"""The drawn week of a job: its marks are bounded, and clock changes are marked."""

import re
import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest

from gnomon.cron.dst import Dst, Fold
from gnomon.cron.schedule import Schedule, cron_schedule, interval_schedule
from gnomon.cron.warnings import warnings_of
from gnomon.dashboard.drawing.week_calendar import DAYS, week_of
from gnomon.model.errors import InvalidSchedule

SPRING = datetime(2026, 3, 26, 12, tzinfo=UTC)  # clocks go forward on the 29th
AUTUMN = datetime(2026, 10, 22, 12, tzinfo=UTC)  # and back on the 25th


def berlin(expression: str, fold: Fold = Fold.FIRST) -> Schedule:
    return cron_schedule(expression, "Europe/Berlin", Dst(fold=fold))


def test_a_day_has_a_mark_for_each_fire_at_local_time() -> None:
    week = week_of(berlin("30 4 * * MON-FRI"), SPRING)
    assert [day.name for day in week][:2] == ["Thu 26 Mar", "Fri 27 Mar"]
    assert [[mark.clock for mark in day.marks] for day in week] == [
        ["04:30"], ["04:30"], [], [], ["04:30"], ["04:30"], ["04:30"]
    ]  # fmt: skip
    assert week[0].now == 13 * 60
    assert [day.now for day in week[1:]] == [None] * 6
    assert 'aria-label="Sat 28 Mar: no fire"' in week[2].svg


def test_the_hour_that_clocks_leave_out_is_marked() -> None:
    week = week_of(berlin("30 2 * * *"), SPRING)
    changed = [(day.name, change.words) for day in week for change in day.changes]
    assert changed == [("Sun 29 Mar", "clocks go forward from 02:00 to 03:00")]
    assert [mark.clock for day in week for mark in day.marks] == ["02:30"] * 3 + ["03:00"] + [
        "02:30"
    ] * 3
    assert '<rect class="gap" x="120" y="0" width="60"' in week[3].svg


def test_an_hour_that_comes_twice_shows_which_of_both_fires() -> None:
    for fold, halves in ((Fold.FIRST, [1]), (Fold.SECOND, [2]), (Fold.BOTH, [1, 2])):
        day = week_of(berlin("30 2 * * *", fold), AUTUMN)[3]
        assert [mark.half for mark in day.marks] == halves
        assert day.changes[0].words == "clocks go back from 03:00 to 02:00"
    assert [mark.half for mark in week_of(berlin("30 2 * * *"), AUTUMN)[2].marks] == [0]


def test_midnight_that_does_not_exist() -> None:
    schedule = cron_schedule("0 * * * *", "America/Santiago")
    week = week_of(schedule, datetime(2026, 9, 3, 12, tzinfo=UTC))
    (changed,) = [day for day in week if day.changes]
    assert (changed.name, changed.changes[0].begin, changed.changes[0].end) == ("Sun 06 Sep", 0, 60)
    assert len(changed.marks) == 23


@pytest.mark.parametrize("schedule", [berlin("* * * * * *"), interval_schedule(1)], ids=["c", "i"])
def test_a_job_of_every_second_is_one_band_a_day(schedule: Schedule) -> None:
    for now in (SPRING, AUTUMN):
        week = week_of(schedule, now)
        assert sum(len(day.marks) for day in week) <= DAYS * 96 + 4
        drawn = "".join(day.svg for day in week)
        assert len(re.findall("<(?:rect|path)", drawn)) < 60


def test_every_fire_is_in_the_drawing() -> None:
    for expression in ("7/20 * * * *", "0 0 * * *", "59 23 * * *", "*/16 3-5 * * *"):
        schedule = berlin(expression)
        midnight = datetime(2026, 3, 25, 23, tzinfo=UTC)
        marks = [(day.day, mark.clock) for day in week_of(schedule, SPRING) for mark in day.marks]
        fires = schedule.fires(midnight - timedelta(seconds=1), midnight + timedelta(days=8))
        wanted = [
            (f.date(), f"{f:%H:%M}") for f in (each.astimezone(schedule.zone) for each in fires)
        ]
        assert marks == [each for each in wanted if each[0] <= SPRING.date() + timedelta(days=6)]


# Long lists, deep steps, all letters, dates that hardly come: whatever a stranger may type.
HOSTILE = [
    ",".join(["0-59/1"] * 36) + " * * * *",
    "*/1,*/1,*/1 */1 */1 */1 */1",
    "0 0 29 2 MON#5",
    "H H H H H",
    "0-59/99999999999999999999 * * * *",
    "99999999999999999999999 * * * *",
    "0 0 31W,L-30,LW 2 SUN#5",
    "* " * 100,
    "1-" * 120,
    "{" * 255,
]


@pytest.mark.parametrize("expression", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_expression_costs_neither_time_nor_memory(expression: str) -> None:
    tracemalloc.start()
    began = process_time()
    with suppress(InvalidSchedule):
        schedule = cron_schedule(expression, "Europe/Berlin", seed="a")
        fires = schedule.preview(SPRING, 10)
        warnings_of(expression, fires, SPRING)
        week_of(schedule, SPRING)
        schedule.describe()
    spent, (_, most) = process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 2.0
    assert most < 8_000_000
