"""A handler: a Python function that runs the tasks of one type."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from enum import Enum
from functools import partial, update_wrapper
from types import CoroutineType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from gnomon.model.tasks.task import DeliveryMode
from gnomon.sdk.declaring.options import (
    TASK_OPTIONS,
    TaskDefaults,
    check_options,
    checked_name,
    checked_names,
    read_flag,
    task_defaults,
)
from gnomon.sdk.declaring.parameters import called, place_of, shape_of
from gnomon.sdk.declaring.providers import Provider, Providers
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.executing.provided import Provided
from gnomon.sdk.submitting.arguments import Arguments
from gnomon.sdk.submitting.prepared import SubmittableHandler
from gnomon.sdk.submitting.results import Results

P = ParamSpec("P")  # the arguments of a submission
R = TypeVar("R")  # the result
Q = ParamSpec("Q")  # the parameters of the function itself
C = TypeVar("C")  # what a plain call gives: the result, or a coroutine of it

Blocking = Callable[[Callable[[], object]], Awaitable[object]]
Overrides = Mapping[Callable[..., Any], Provider]


class Runs(Enum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


class Handler(SubmittableHandler[P, R]):
    """A function that runs the tasks of one type, named by that type."""

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        names: Mapping[str, Any],
    ) -> None:
        """`names` are local ones that its annotations may use. Raises InvalidHandler."""
        _check_kind(function, named="name" in options)
        self.function = function
        self.name = checked_name(options.get("name", function.__name__))
        check_options(self.name, options, TASK_OPTIONS)
        self.aliases = checked_names(self.name, options.get("aliases", ()))
        self.defaults: TaskDefaults = task_defaults(self.name, options)
        self.place = place_of(function)
        # A decorator that is a plain function passes on the coroutine of what it wraps.
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.runs = _runs(self.name, options.get("process", False), is_async=self.is_async)
        # Whether its task is completed in the transaction of what it writes by ctx.connection.
        self.transactional = self._transactional(options.get("transactional", False))
        shape = shape_of(function, names)
        self.arguments = Arguments(self.name, [each for each in shape.parameters if each.is_data])
        self.decode = self.arguments.decode
        self.results = Results(self.name, shape.returns)
        self._supplied = Providers(names).supplied(shape.parameters)
        self._wanted = tuple(each.provider for each in self._supplied if each.provider is not None)
        self._context_places = [
            place for place, each in enumerate(shape.parameters) if each.takes_context
        ]
        self._keywords = [each.name for each in shape.parameters if each.by_keyword]
        # The common case, which is to cost nothing: all that it takes is its data, in order.
        self.is_plain = inspect.iscoroutinefunction(function) and all(
            each.is_data and not each.by_keyword for each in shape.parameters
        )
        # Not its attributes: they could take the place of the handler's own.
        update_wrapper(cast("Any", self), function, updated=())

    def __repr__(self) -> str:
        return f"<Handler {self.name} of {self.place}>"

    def _transactional(self, given: Any) -> bool:
        try:
            wanted = read_flag(given)
        except TypeError as error:
            raise InvalidHandler(f"{self.name}: transactional={given!r}: {error}") from None
        if wanted and not self.is_async:
            raise InvalidHandler(
                f"{self.name}: transactional=True is for handlers that are declared with async def"
            )
        if wanted and self.defaults.delivery is not DeliveryMode.EXACTLY_ONCE:
            raise InvalidHandler(
                f'{self.name}: transactional=True needs delivery="exactly_once": that is what it is'
            )
        return wanted

    def decode_result(self, result: bytes | None) -> R:
        """The result of a task, as the function returned it. Raises InvalidResult."""
        value: R = self.results.decode(result)
        return value

    async def run(
        self, payload: bytes | None, ctx: TaskContext, blocking: Blocking, overrides: Overrides
    ) -> object:
        """Run it once: its value, or whatever it raises. Raises Reject for a payload that does not
        fit, and NotBegun where it may not be called any more."""
        data = self.decode(payload)
        if not self._wanted:
            return await self._run_alone(data, ctx, blocking)
        provided = Provided(ctx, overrides)
        try:
            if self.is_async:
                await provided.make_all(self._wanted)
                args, kwargs = provided.arranged(self._supplied, data)
                ctx.ask_to_begin()  # a dependency may have waited for long
                ctx.called = True
                value = await _as_awaitable(self.function(*args, **kwargs))
            else:
                await provided.make_async(self._wanted)
                provided.enter_thread()
                value = await _in_thread(blocking, self._provided_call, ctx, provided, data)
        except BaseException as error:
            await provided.close(error)
            raise
        await provided.close(None)
        return value

    async def _run_alone(
        self, data: tuple[Any, ...], ctx: TaskContext, blocking: Blocking
    ) -> object:
        """Run it without dependencies."""
        values = list(data)
        for place in self._context_places:
            values.insert(place, ctx)
        args, kwargs = values, {}
        if self._keywords:
            args = values[: -len(self._keywords)]
            kwargs = dict(zip(self._keywords, values[len(args) :], strict=True))
        if self.is_async:
            ctx.called = True
            return await _as_awaitable(self.function(*args, **kwargs))
        return await _in_thread(blocking, self._call, ctx, args, kwargs)

    # In a thread, which it may have waited for

    def _call(self, ctx: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> object:
        ctx.ask_to_begin()
        ctx.called = True
        return self._returned(self.function(*args, **kwargs))

    def _provided_call(self, ctx: TaskContext, provided: Provided, data: tuple[Any, ...]) -> object:
        ctx.ask_to_begin()
        try:
            # A dependency may wait for long, too: the call asks again.
            value = self._call(ctx, *provided.arranged(self._supplied, data))
        except BaseException as error:
            provided.close_in_thread(error)
            raise
        provided.close_in_thread(None)
        return value

    def _returned(self, value: object) -> object:
        if isinstance(value, CoroutineType):
            value.close()
            raise TypeError(f"{self.name} returned a coroutine: declare it with async def")
        return value


class TaskFunction(Handler[P, R], Generic[P, R, Q, C]):
    """A handler that can be called as the function that it is: a plain call stays a plain call."""

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        value: C = self.function(*args, **kwargs)
        return value


def _as_awaitable(value: Any) -> Awaitable[object]:
    """What an async function gives. A decorator may have put a value in its place."""
    if type(value) is CoroutineType or inspect.isawaitable(value):
        return cast("Awaitable[object]", value)
    return _given(value)


async def _given(value: object) -> object:
    return value


def _in_thread(blocking: Blocking, call: Callable[..., object], *args: Any) -> Awaitable[object]:
    """In the context of the loop: what is logged there can be labelled, too."""
    return blocking(partial(copy_context().run, call, *args))


def _runs(name: str, process: Any, *, is_async: bool) -> Runs:
    try:
        if read_flag(process):
            return Runs.PROCESS
    except TypeError as error:
        raise InvalidHandler(f"{name}: process={process!r}: {error}") from None
    return Runs.LOOP if is_async else Runs.THREAD


def _check_kind(function: Any, *, named: bool) -> None:
    if isinstance(function, Handler):
        raise InvalidHandler(f"{function.name} ({function.place}) is a handler already")
    if isinstance(function, staticmethod | classmethod):
        raise InvalidHandler(f"{called(function.__func__)}: a handler cannot belong to a class")
    if not inspect.isroutine(function) or not hasattr(function, "__name__"):
        raise InvalidHandler(f"{function!r} is no function: a handler is made of one")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidHandler(
            f"{called(function)} is a generator: a handler returns its result once"
        )
    if function.__name__ == "<lambda>" and not named:
        raise InvalidHandler(f"a lambda ({place_of(function)}) has no name: use def, or name=")
    if _lacks_object(function):
        raise InvalidHandler(
            f"{called(function)} is a method, and no task has an object to call it on; use a "
            "function, and Depends for what it needs"
        )


def _lacks_object(function: Any) -> bool:
    """Whether it is written in a class, and not bound to an object."""
    if inspect.ismethod(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")
