"""The app: the handlers of a program, and how they are run."""

import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from gnomon.model.task import DEFAULT_TENANT
from gnomon.sdk.context import TaskContext, current
from gnomon.sdk.cron import DeclaredCron
from gnomon.sdk.errors import InvalidHandler, UnknownHandler
from gnomon.sdk.handler import Blocking, Handler, TaskFunction

P = ParamSpec("P")
R = TypeVar("R")


class Gnomon:
    """The handlers of a program. Making one does no I/O."""

    def __init__(self, *, tenant: str = DEFAULT_TENANT) -> None:
        self.tenant = tenant
        self._handlers: dict[str, Handler[..., Any]] = {}
        self._jobs: list[DeclaredCron] = []

    @property
    def handlers(self) -> Mapping[str, Handler[..., Any]]:
        """By name and by alias."""
        return MappingProxyType(self._handlers)

    @property
    def jobs(self) -> Sequence[DeclaredCron]:
        return tuple(self._jobs)

    @overload
    def task(
        self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[TaskContext, P], R], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...
    def task(self, function: Callable[..., Any], /) -> TaskFunction[..., Any, ..., Any]:
        """Make a function the handler of the task type of its name."""
        handler: TaskFunction[..., Any, ..., Any] = TaskFunction(
            function, sys._getframe(1).f_locals
        )
        for name in (handler.name, *handler.aliases):
            other = self._handlers.get(name)
            if other is not None:
                raise InvalidHandler(
                    f"two handlers are called {name!r}: {other.place} and {handler.place}; "
                    "give one of them another name="
                )
            self._handlers[name] = handler
        return handler

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The app's lifespan. Entered once in each process that runs handlers."""
        yield

    async def execute(
        self, name: str, payload: bytes | None, ctx: TaskContext, blocking: Blocking
    ) -> object:
        """Run a task's handler: its value, or whatever it raises. Raises Reject where the payload
        does not fit, and UnknownHandler."""
        handler = self._handlers.get(name)
        if handler is None:
            raise UnknownHandler(name, self._handlers)
        token = current.set(ctx)
        try:
            return await handler.run(payload, ctx, blocking)
        finally:
            current.reset(token)
