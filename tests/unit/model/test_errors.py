"""Errors: each says in words what is wrong, and carries what it is about."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from gnomon.access.secret_errors import TooManySecrets
from gnomon.model.errors import (
    GnomonError,
    InvalidPayload,
    InvalidTask,
    Mistake,
    OverQuota,
    QuotaExceeded,
    RoleMissing,
    StoreError,
    Unauthenticated,
)
from gnomon.model.fleet.crowding import Crowd
from gnomon.model.insight.transition import TransitionPlace
from gnomon.model.key_errors import KeyRingFull
from gnomon.model.tasks.priority import Lane

ID = UUID(int=0x1234)
BY_ANNOTATION: dict[Any, Any] = {
    str: "what-is-wrong", int: 4321, bool: True, UUID: ID, UUID | str: ID, UUID | None: ID,
    Sequence[UUID]: [ID, ID], Iterable[str]: ["viewer"],
    Sequence[Mistake]: [Mistake("/a", "is wrong")], TransitionPlace: TransitionPlace(1234, 5),
    Lane: Lane.LOW, Crowd: Crowd(120, 100, shared=False),
}  # fmt: skip
# Under another name, or in the words alone.
NOT_KEPT: dict[type, set[str]] = {
    InvalidPayload: {"found"}, QuotaExceeded: {"quota", "limit", "used"}, RoleMissing: {"roles"},
    StoreError: {"detail"}, TooManySecrets: {"detail"}, KeyRingFull: {"most"},
}  # fmt: skip


def kinds(of: type[GnomonError] = GnomonError) -> Iterator[type[GnomonError]]:
    for kind in of.__subclasses__():
        if kind.__module__.startswith("gnomon.model"):
            yield kind
            yield from kinds(kind)


def made(kind: type[GnomonError]) -> tuple[GnomonError, dict[str, Any]]:
    """An error of this kind, and what it was made with, by name."""
    if kind.__init__ is Exception.__init__:
        return kind("what-is-wrong"), {}
    given = {
        name: BY_ANNOTATION[parameter.annotation]
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty
    }
    return kind(**given), given


@pytest.mark.parametrize("kind", sorted(set(kinds()), key=str))
def test_every_error_has_words_and_what_it_is_about(kind: type[GnomonError]) -> None:
    error, given = made(kind)
    assert len(str(error)) > 5
    assert "None" not in str(error)
    not_kept = {name for of in kind.__mro__ for name in NOT_KEPT.get(of, ())}
    for name in given.keys() - not_kept:
        assert getattr(error, name) == given[name]
    assert str(ID) in str(error) or ID not in given.values()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            QuotaExceeded("submissions_per_second", 5, 2, 6),
            "a batch of 6 is more than the quota submissions_per_second, 5",
        ),
        (
            QuotaExceeded("submissions_per_second", 5, 5),
            "5 tasks were submitted within the last second, and another one does not fit",
        ),
        (
            QuotaExceeded("scheduled_tasks", 5, 4, 2),
            "4 tasks have not ended, and 2 more do not fit into the quota scheduled_tasks, 5",
        ),
        (QuotaExceeded("cron_jobs", 5, 5), "5 already, and another one does not fit"),
        (Unauthenticated(given=True), "not valid"),
        (Unauthenticated(given=False), "send an API key"),
        (RoleMissing("admin", ["viewer", "operator"]), "has: operator, viewer"),
        (RoleMissing("admin", []), "has: none"),
    ],
)
def test_what_they_say(error: GnomonError, words: str) -> None:
    assert words in str(error)


def test_a_quota_that_was_exceeded_is_told_as_data() -> None:
    assert QuotaExceeded("cron_jobs", 5, 4, 2).over == OverQuota("cron_jobs", 5, 4)


def test_a_place_within_what_was_sent() -> None:
    over = OverQuota("payload_bytes", 1, 2)
    inner = InvalidTask("is wrong", "/a", over).within("/tasks/3")
    assert inner.mistakes == (Mistake("/tasks/3/a", "is wrong"),)
    assert inner.over is over
    several = InvalidPayload([Mistake("/a", "one"), Mistake("/b", "two")]).within("/payload")
    assert several.mistakes == (Mistake("/payload/a", "one"), Mistake("/payload/b", "two"))
