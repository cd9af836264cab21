"""The life of a task: the table, the statuses, and the document that is drawn from them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.tasks.lifecycle import TRANSITIONS, Event, State, Status, after, status_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "state-machine.md"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BORN = (State.WAITING, State.BLOCKED)  # how a task is stored first


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.name}" for state in BORN]
    lines += [
        f"    {state.name} --> {new.name}: {event.name.lower().replace('_', ' ')}"
        for (state, event), new in TRANSITIONS.items()
    ]
    lines += [f"    {state.name} --> [*]" for state in State if state.is_final]
    return "\n".join(lines)


def test_the_document_shows_this_table() -> None:
    """Where it does not, put what `diagram` gives into it."""
    assert f"```mermaid\n{diagram()}\n```" in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*State.__members__, *Status.__members__])
def test_the_document_names_every_state_and_status(name: str) -> None:
    assert f"`{name}`" in DOCUMENT.read_text(encoding="utf-8")


@given(st.sampled_from(BORN), st.lists(st.sampled_from(Event), max_size=50))
def test_no_sequence_of_events_leaves_the_table(state: State, events: list[Event]) -> None:
    for event in events:
        new = after(state, event)
        if new is None:
            assert (state, event) not in TRANSITIONS
            continue
        assert not state.is_final
        state = new
    assert state in State


def test_every_state_can_be_reached() -> None:
    reached = set(BORN)
    while more := {new for (state, _), new in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)


def test_every_live_state_can_come_to_an_end() -> None:
    ending = {state for state in State if state.is_final}
    while more := {old for (old, _), new in TRANSITIONS.items() if new in ending} - ending:
        ending |= more
    assert ending == set(State)


def test_the_end_is_the_end() -> None:
    assert not [state for state, _ in TRANSITIONS if state.is_final]


def test_every_event_happens_somewhere() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_only_a_claim_makes_a_task_run() -> None:
    assert [key for key, new in TRANSITIONS.items() if new is State.RUNNING] == [
        (State.WAITING, Event.CLAIM)
    ]


@pytest.mark.parametrize(
    ("due_in", "attempt", "status"),
    [
        (1, 0, Status.SCHEDULED),
        (0, 0, Status.READY),
        (-1, 0, Status.READY),
        (1, 2, Status.FAILED),
        (0, 2, Status.READY),
    ],
)
def test_what_waits_is_told_apart_by_its_time_and_its_past(
    due_in: int, attempt: int, status: Status
) -> None:
    due_at = NOW + timedelta(seconds=due_in)
    assert status_of(State.WAITING, due_at, attempt, NOW) is status


def test_other_states_have_one_status_each_and_all_are_used() -> None:
    shown = {
        state: {
            status_of(state, NOW + timedelta(seconds=s), attempt, NOW)
            for s in (-1, 0, 1)
            for attempt in (0, 1)
        }
        for state in State
    }
    assert all(
        len(statuses) == 1 for state, statuses in shown.items() if state is not State.WAITING
    )
    assert set.union(*shown.values()) == set(Status)


def test_states_are_stored_as_the_same_numbers_for_ever() -> None:
    """Tables hold them, and statements and partial indexes name them."""
    assert {state.name: int(state) for state in State} == {
        "WAITING": 0,
        "RUNNING": 1,
        "PAUSED": 2,
        "BLOCKED": 3,
        "DEAD": 4,
        "COMPLETED": 10,
        "CANCELLED": 11,
        "EXPIRED": 12,
        "RESOLVED": 13,
    }
