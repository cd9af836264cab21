"""When so much waits in a lane that new tasks are refused, and whose."""

import pytest

from gnomon.model.fleet.crowding import (
    UNKNOWN_WAIT,
    Crowd,
    LaneCrowded,
    LaneKey,
    fair_level,
    own_crowds,
    shared_crowds,
    spread,
    with_waits,
)
from gnomon.model.tasks.priority import Lane

LOW, CRITICAL = LaneKey("a", Lane.LOW), LaneKey("a", Lane.CRITICAL)


def test_a_lane_over_its_quota_is_refused_until_it_is_clearly_below() -> None:
    quotas = {"a": 100}
    assert own_crowds({LOW: 99}, quotas, {}) == {}
    crowded = own_crowds({LOW: 100, CRITICAL: 3}, quotas, {})
    assert crowded == {LOW: Crowd(100, 100, shared=False)}
    assert own_crowds({LOW: 90}, quotas, crowded)
    assert not own_crowds({LOW: 89}, quotas, crowded)


@pytest.mark.parametrize(
    ("ready", "weights", "most", "level"),
    [
        ({"a": 50}, {"a": 1}, 100, None),
        ({"a": 150}, {"a": 1}, 100, 100),
        ({"a": 1000, "b": 10}, {"a": 1, "b": 1}, 100, 90),  # what b leaves is a's
        ({"a": 1000, "b": 1000}, {"a": 1, "b": 3}, 100, 25),
        ({"a": 50, "b": 50}, {"a": 1, "b": 1}, 100, 50),
        ({}, {}, 100, None),
    ],
)
def test_what_may_wait_is_shared_fairly(
    ready: dict[str, int], weights: dict[str, float], most: int, level: float | None
) -> None:
    assert fair_level(ready, weights, most) == level


def test_only_who_has_more_than_its_share_is_refused_and_low_tasks_first() -> None:
    weights = {"a": 1.0, "b": 1.0}

    def refused(a: int, b: int, before: dict[LaneKey, Crowd] | None = None) -> set[LaneKey]:
        return set(shared_crowds({"a": a, "b": b}, weights, 1000, before or {}))

    assert refused(600, 50) == set()
    assert refused(660, 50) == {LOW}
    assert refused(800, 50) == {LOW, LaneKey("a", Lane.MEDIUM)}
    assert refused(2000, 50) == {LaneKey("a", lane) for lane in Lane}
    # It stays so until there is clearly less.
    before = shared_crowds({"a": 2000, "b": 50}, weights, 1000, {})
    assert CRITICAL in refused(900, 50, before)
    assert CRITICAL not in refused(800, 50, before)


def test_the_wait_is_what_the_lane_needs_at_its_pace() -> None:
    def wait(ready: int, before: int | None) -> int:
        seen = {} if before is None else {LOW: Crowd(before, 100, shared=False)}
        return with_waits({LOW: Crowd(ready, 100, shared=False)}, seen, 2.0)[LOW].wait

    assert wait(190, None) == UNKNOWN_WAIT
    assert wait(190, 190) == UNKNOWN_WAIT
    assert wait(190, 210) == 10  # 10 a second; 100 must go
    assert wait(190, 192) == 60
    assert {spread(10, number) for number in range(100)} == {*range(10, 16)}


def test_a_refusal_says_which_threshold_how_deep_and_what_to_do() -> None:
    own = str(LaneCrowded(Lane.LOW, Crowd(120, 100, shared=False), 7))
    assert "120 LOW tasks are due and wait, and the quota ready_tasks is 100" in own
    assert "try again in 7 s" in own
    shared = str(LaneCrowded(Lane.LOW, Crowd(120, 100, shared=True), 7))
    assert "sharing.max_ready_tasks" in shared
    assert "120 of them are the tenant's, whose share is 100" in shared
