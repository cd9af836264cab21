"""Finds the one of many that PostgreSQL refuses, so that it does not keep the others back."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from gnomon.model.errors import StatementRefused, StoreError, Unstorable

T = TypeVar("T")
R = TypeVar("R")

# Where so many are refused one after the other, and none is not, it is the statement that is wrong.
_MOST_BLAMED = 8


async def isolated(
    items: Sequence[T],
    work: Callable[[Sequence[T]], Awaitable[list[R]]],
    blame: Callable[[T, StoreError], Awaitable[list[R]]],
) -> list[R]:
    """Do the work for all of them at once or, where that is refused, for halves of them, and so
    on. `blame` is told of each that is refused by itself; what it gives is part of the result.
    Raises the error where all of many are refused; and whatever else goes wrong."""
    search = _Search(work)
    await search.go(items)
    for item, error in search.refused:
        search.done += await blame(item, error)
    return search.done


class _Search(Generic[T, R]):
    """One search: what was done, and what was refused."""

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[list[R]]]) -> None:
        self._work = work
        self._worked = False
        self.done: list[R] = []
        self.refused: list[tuple[T, StoreError]] = []

    async def go(self, items: Sequence[T]) -> None:
        try:
            self.done += await self._work(items)
            self._worked = True
        except (Unstorable, StatementRefused) as error:
            if len(items) > 1:
                middle = len(items) // 2
                await self.go(items[:middle])
                await self.go(items[middle:])
                return
            self.refused.append((items[0], error))
            if len(self.refused) > _MOST_BLAMED and not self._worked:
                raise
