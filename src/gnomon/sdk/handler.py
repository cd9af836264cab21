"""A handler: a Python function that runs the tasks of one type."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from gnomon.sdk.arguments import Arguments
from gnomon.sdk.context import TaskContext
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.parameters import Shape, place_of, shape_of

P = ParamSpec("P")  # the arguments of a submission
R = TypeVar("R")  # the result
Q = ParamSpec("Q")  # the parameters of the function itself
C = TypeVar("C")  # what a plain call gives: the result, or a coroutine of it

Blocking = Callable[[Callable[[], object]], Awaitable[object]]


class Runs(Enum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


class Handler(Generic[P, R]):
    """A function that runs the tasks of one type, named by that type."""

    __name__: str

    def __init__(
        self, function: Callable[..., Any], names: Mapping[str, Any], *, name: str | None = None
    ) -> None:
        _check_kind(function, name)
        self.function = function
        self.name = name or function.__name__
        self.aliases: tuple[str, ...] = ()
        self.place = place_of(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.runs = Runs.LOOP if self.is_async else Runs.THREAD
        self._shape: Shape = shape_of(function, names)
        data = [each for each in self._shape.parameters if each.is_data]
        self.arguments = Arguments(self.name, data)
        # Not its attributes: they could take the place of the handler's own.
        update_wrapper(cast("Any", self), function, updated=())

    def __repr__(self) -> str:
        return f"<Handler {self.name} of {self.place}>"

    def decode(self, payload: bytes | None, ctx: TaskContext) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with."""
        values = iter(self.arguments.decode(payload))
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in self._shape.parameters:
            value = ctx if parameter.takes_context else next(values)
            if parameter.by_keyword:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    async def run(self, payload: bytes | None, ctx: TaskContext, blocking: Blocking) -> object:
        args, kwargs = self.decode(payload, ctx)
        if self.is_async:
            return await self.function(*args, **kwargs)
        return await blocking(partial(self.function, *args, **kwargs))


class TaskFunction(Handler[P, R], Generic[P, R, Q, C]):
    """A handler that can be called as the function that it is: a plain call stays a plain call."""

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        called: C = self.function(*args, **kwargs)
        return called


def _check_kind(function: Any, name: str | None) -> None:
    if not inspect.isroutine(function) or not hasattr(function, "__name__"):
        raise InvalidHandler(f"{function!r} is no function: a handler is made of one")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidHandler(
            f"{function.__qualname__} ({place_of(function)}) is a generator: a handler returns its "
            "result once"
        )
    if function.__name__ == "<lambda>" and name is None:
        raise InvalidHandler(f"a lambda ({place_of(function)}) has no name: use def, or name=")
