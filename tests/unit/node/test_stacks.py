"""Stacks of handlers that wait for objects of the user's own."""

from collections.abc import Iterator
from typing import Any

import pytest

from gnomon.node.run import stacks


class Waits:
    """Something to wait for that never comes, and answers whatever it is asked."""

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        return None

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return self


class Refuses(Waits):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"it has no {name}, and says so in its own way")


@pytest.mark.parametrize(("awaited", "known"), [(Waits, True), (Refuses, False)])
def test_what_a_handler_waits_for_cannot_keep_it_from_being_stopped(
    awaited: type[Waits], known: bool
) -> None:
    async def handler() -> None:
        await awaited()

    coroutine = handler()
    coroutine.send(None)
    told = stacks.of_coroutine(coroutine)
    coroutine.close()
    assert (told is not None and "await awaited()" in told) == known
