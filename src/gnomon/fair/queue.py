"""The port of the ready queue: due work that waits for a free slot."""

from typing import Protocol, TypeVar

from gnomon.model.lane import Lane

T = TypeVar("T")


class ReadyQueue(Protocol[T]):
    """Decides which of the due entries start first.

    It holds hints: the entries of one process, any of which may have been cancelled or claimed
    elsewhere in the meantime. Whoever takes them finds that out by claiming, so the queue needs
    no removal. Every implementation keeps these promises:

    - What is put comes out once, and nothing else does.
    - Entries of the same lane and tenant come out in the order they were put.
    - No lane starves: while a lane holds entries, a bounded number of entries of other lanes is
      taken before its next one.
    - The order does not depend on how takes are cut: one take of 100 gives what 100 takes of 1
      give.
    """

    def put(self, lane: Lane, tenant_id: str, entry: T) -> None:
        """Add an entry that is due."""

    def take(self, most: int) -> list[T]:
        """Remove up to `most` entries, in the order they should start; fewer only when empty."""

    def __len__(self) -> int:
        """Entries that wait."""
