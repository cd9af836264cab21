"""Records of a campaign, written by hand: a task that is due at `DUE`, and what became of it."""

from typing import Any

from proof.campaigns.checker import COMPLETED, Judgement, judge
from proof.campaigns.expectations import Limits
from proof.campaigns.history import (
    Action,
    Call,
    Changed,
    Effect,
    Fault,
    Final,
    History,
    Sighting,
    Submitted,
)

DUE = 100.0
ID = "task-1"
MS = 0.001


def asked(**fields: Any) -> Submitted:
    given: dict[str, Any] = {
        "n": 1,
        "mode": "at_least_once",
        "way": "webhook",
        "asked_at": DUE - 1,
        "acked_at": DUE - 0.9,
        "task_id": ID,
        "due_at": DUE,
        "timeout_seconds": 5.0,
    }
    return Submitted(**given | fields)


def call(began: float = DUE + 0.1, fence: int = 1, **fields: Any) -> Call:
    given: dict[str, Any] = {
        "n": 1,
        "run_id": ID,
        "attempt": 1,
        "fence": fence,
        "began_at": began,
        "ended_at": began + 0.1,
        "succeeded": True,
    }
    return Call(**given | fields)


def failed(began: float = DUE + 0.1, fence: int = 1, **fields: Any) -> Call:
    return call(began, fence, succeeded=False, **fields)


def cut_off(began: float = DUE + 0.1, fence: int = 1, **fields: Any) -> Call:
    return call(began, fence, succeeded=False, ended_at=None, **fields)


def final(state: int = COMPLETED, fence: int = 1, **fields: Any) -> Final:
    return Final(**{"n": 1, "task_id": ID, "state": state, "fence": fence, "attempt": 1, **fields})


def fault(at: float, kind: str = "kill", victim: str = "node-1", **fields: Any) -> Fault:
    given: dict[str, Any] = {"healed_at": at + 1.0, "took_effect": True}
    return Fault(kind=kind, victim=victim, at=at, **given | fields)


def changed(action: Action, asked_at: float, accepted: bool | None = True) -> Changed:
    answered_at = None if accepted is None else asked_at + 0.01
    return Changed(
        n=1, action=action, asked_at=asked_at, answered_at=answered_at, accepted=accepted
    )


def effect(fence: int = 1, run_id: str = ID) -> Effect:
    return Effect(1, run_id, fence, DUE + 0.15)


def judged(*records: Any, limits: Limits | None = None) -> Judgement:
    """The judgement of a history that consists of these records, whatever they are."""

    def of(kind: type) -> list[Any]:
        return [record for record in records if isinstance(record, kind)]

    history = History(
        began_at=DUE - 10,
        ended_at=DUE + 100,
        lease=2.0,
        submitted=of(Submitted),
        changed=of(Changed),
        calls=of(Call),
        effects=of(Effect),
        faults=of(Fault),
        finals=of(Final),
        sightings=of(Sighting),
    )
    return judge(history, limits)


def wrongs(*records: Any) -> dict[str, int]:
    return {kind: finding.count for kind, finding in judged(*records).wrong.items()}
