"""Which child process a suspect runs in. Pure."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class Group(Protocol):
    """A child process, as far as it matters who joins it."""

    @property
    def members(self) -> Sequence["Member"]:
        """The tasks that it runs, and those that it is kept for."""

    @property
    def fresh(self) -> bool:
        """Whether it has not run anything."""

    @property
    def takes_more(self) -> bool:
        """Whether it may be given anything at all."""


class Member(Protocol):
    """A suspect, as far as others matter to it."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def group_size(self) -> int:
        """With how many it may share a process, itself included."""


G = TypeVar("G", bound=Group)


def place(groups: Sequence[G], suspect: Member, limit: int) -> G | None:
    """Where it runs; None: in a new process. At first tenants keep to themselves, so that a killer
    takes along nobody else's tasks; they share where there is no process left to start."""
    if suspect.group_size == 1:
        return next((g for g in groups if g.takes_more and g.fresh and not g.members), None)
    fit = [g for g in groups if _fits(g, suspect)]
    own = [g for g in fit if {m.tenant_id for m in g.members} <= {suspect.tenant_id}]
    if own:
        return max(own, key=lambda g: len(g.members))
    return fit[0] if fit and _in_use(groups) >= limit else None


def _fits(group: Group, suspect: Member) -> bool:
    smallest = min((m.group_size for m in group.members), default=suspect.group_size)
    return group.takes_more and len(group.members) < min(smallest, suspect.group_size)


def _in_use(groups: Iterable[Group]) -> int:
    return sum(g.takes_more for g in groups)
