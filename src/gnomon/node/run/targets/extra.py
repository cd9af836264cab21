"""Callers whose client library is an extra: imported by the first call, or never."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import Target
from gnomon.node.run.targets import Caller, Place
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext


class ClosableCaller(Caller, Protocol):
    """A caller that keeps connections."""

    async def close(self) -> None: ...


class ExtraCaller:
    """`Caller` that makes the real one when it is first needed. Where the extra is not installed,
    tasks fail and are tried again, perhaps by a node that has it. Use as a context manager."""

    def __init__(
        self, extra: str, importing: Callable[[], Callable[[], ClosableCaller]], room: int
    ) -> None:
        self._extra = extra
        self._importing = importing  # blocks, and gives what makes the caller
        self._room = room
        self._caller: ClosableCaller | None = None
        self._missing: str | None = None

    async def __aenter__(self) -> "ExtraCaller":
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._caller is not None:
            await self._caller.close()

    @property
    def least_room(self) -> float:
        return self._room

    def place(self, target: Target) -> Place | None:
        return None if target.host is None else Place(target.host, self._room)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        if self._caller is not None:
            return self._caller.ready(delivery)
        return None if self._missing is not None else self._imported(delivery)

    def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Coroutine[Any, Any, Outcome | None]:
        if self._caller is not None:
            return self._caller.call(delivery, payload, run)
        return self._first(delivery, payload, run)

    async def _first(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        if self._missing is None and (waiting := self.ready(delivery)) is not None:
            await waiting
        if self._caller is not None:
            return await self._caller.call(delivery, payload, run)
        error = (
            f"{self._missing} is not installed on this node: "
            f"pip install 'gnomon[server,{self._extra}]'"
        )
        return Outcome(OutcomeKind.FAILED, error=error, uncalled=True)

    async def _imported(self, delivery: Delivery) -> None:
        try:
            make = await asyncio.get_running_loop().run_in_executor(None, self._importing)
        except ModuleNotFoundError as error:
            self._missing = error.name or str(error)
            return
        if self._caller is None:  # several may have waited
            self._caller = make()
        if (waiting := self._caller.ready(delivery)) is not None:
            await waiting
