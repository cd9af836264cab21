"""Campaigns with workflows: what the load asks for, and what the checker holds against a join."""

from itertools import islice
from typing import Any

from proof.campaigns.checker import BLOCKED, Kind
from proof.campaigns.orders import RUN_SIZE, Mix, orders
from tests.unit.proof.proof_records import DUE, asked, call, final, judged, wrongs

CHILD: dict[str, Any] = {"n": 2, "task_id": "task-2"}
RUN: dict[str, Any] = {"n": 2, "run_id": "task-2"}


def test_a_run_is_one_then_several_then_a_join() -> None:
    drawn = list(islice(orders(1, Mix(workflows=0.5)), 3000))
    assert [order.n for order in drawn] == list(range(1, 3001))
    nodes = [order for order in drawn if order.run is not None]
    assert 1000 < len(nodes) < 2000
    first, *middle, last = nodes[:RUN_SIZE]
    assert first.after == ()
    assert all(order.after == (first.n,) for order in middle)
    assert last.after == tuple(order.n for order in middle)
    assert {order.run for order in nodes[:RUN_SIZE]} == {first.n}
    assert not any(order.run for order in islice(orders(1, Mix()), 500))


def test_a_node_that_starts_before_its_parent_has_succeeded_is_early() -> None:
    parent = asked(), call(DUE + 1), final()
    child = asked(**CHILD, after=(1,)), final(**CHILD)
    late = judged(*parent, *child, call(DUE + 9, **RUN))
    assert late.wrong == {}  # it waits for its parent, not for its time
    early = judged(*parent, *child, call(DUE + 0.5, **RUN))
    assert early[Kind.EARLY].count == 1
    assert "before 1 had succeeded" in early[Kind.EARLY].first[0][1]


def test_a_join_that_is_lost_or_doubled_is_found() -> None:
    parent = asked(), call(), final()
    child = asked(**CHILD, after=(1,))
    lost = final(BLOCKED, fence=0, **CHILD)
    assert wrongs(*parent, child, lost) == {"stuck": 1}
    twice = call(DUE + 1, **RUN), call(DUE + 2, fence=2, **RUN), final(fence=2, **CHILD)
    assert "duplicate_starts_unexplained" in wrongs(*parent, child, *twice)
