"""The dependencies of one execution: made when the handler needs them, closed after it.

A synchronous provider runs where its handler does: on the event loop with an async one, else in the
handler's thread. Asynchronous ones always run on the event loop, before the thread begins.

A generator is closed as a `with` statement would close it: an exception of the handler is raised at
its `yield`, so that it can roll back. It cannot make a failure a success. What it raises itself
after a success fails the execution: it may have been the commit.
"""

import logging
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Generator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from gnomon.sdk.declaring.parameters import REQUIRED
from gnomon.sdk.declaring.providers import Provider, Provides, Supplied
from gnomon.sdk.executing.context import TaskContext

log = logging.getLogger("gnomon.sdk")


class _Open(NamedTuple):
    """A generator that has yielded its value."""

    provider: Provider
    generator: Any

    def close(self, error: BaseException | None) -> None:
        """Raises what the generator raises, but for what it was given."""
        generator: Generator[Any, None, None] = self.generator
        frames = None if error is None else error.__traceback__
        try:
            if error is None:
                next(generator)
            else:
                generator.throw(error)
        except StopIteration:
            return
        except BaseException as raised:
            if _is_the_same(raised, error, frames):
                return
            raise
        generator.close()
        raise self._yields_again()

    async def aclose(self, error: BaseException | None) -> None:
        generator: AsyncGenerator[Any, None] = self.generator
        frames = None if error is None else error.__traceback__
        try:
            if error is None:
                await anext(generator)
            else:
                await generator.athrow(error)
        except StopAsyncIteration:
            return
        except BaseException as raised:
            if _is_the_same(raised, error, frames):
                return
            raise
        await generator.aclose()
        raise self._yields_again()

    def _yields_again(self) -> RuntimeError:
        return RuntimeError(f"the dependency {self.provider.name} yields more than once")


def _is_the_same(
    raised: BaseException, error: BaseException | None, frames: TracebackType | None
) -> bool:
    """Whether the generator let pass what was raised at its `yield`. The error then keeps the
    frames of the handler, and not those of its way through here."""
    if error is None:
        return False
    error.__traceback__ = frames
    # A StopIteration cannot pass through a generator as it is.
    return raised is error or (isinstance(raised, RuntimeError) and raised.__cause__ is error)


class Provided:
    """Values of providers, one for each."""

    __slots__ = ("_ctx", "_in_thread", "_on_loop", "_open", "_overrides", "_values")

    def __init__(self, ctx: TaskContext, overrides: Mapping[Any, Provider]) -> None:
        self._ctx = ctx
        self._overrides = overrides
        self._values: dict[Any, Any] = {}
        # Two lists: a thread that nobody waits for any more closes its own, and no others.
        self._on_loop: list[_Open] = []
        self._in_thread: list[_Open] = []
        self._open = self._on_loop

    # Values

    async def make_all(self, wanted: tuple[Provider, ...]) -> None:
        """On the loop, for an async handler."""
        for each in wanted:
            await self._make(self._chosen(each))

    async def make_async(self, wanted: tuple[Provider, ...]) -> None:
        """Those that need the loop, before the thread of a handler begins."""
        for each in wanted:
            provider = self._chosen(each)
            if provider.is_async:
                await self._make(provider)
            else:
                await self.make_async(provider.wanted)

    def enter_thread(self) -> None:
        """From here on they are made in the handler's thread, and closed there."""
        self._open = self._in_thread

    def arranged(
        self, parameters: tuple[Supplied, ...], data: tuple[Any, ...] = ()
    ) -> tuple[list[Any], dict[str, Any]]:
        """What to call a function with. Makes what can be made without the loop."""
        values = iter(data)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in parameters:
            if each.takes_context:
                value: Any = self._ctx
            elif each.provider is not None:
                value = self._value(each.provider)
            else:
                value = next(values) if each.default is REQUIRED else each.default
            if each.by_keyword:
                kwargs[each.name] = value
            else:
                args.append(value)
        return args, kwargs

    async def _make(self, provider: Provider) -> None:
        if provider.function in self._values:
            return
        await self.make_all(provider.wanted)
        if not provider.is_async:
            self._make_now(provider)
            return
        made = self._call(provider)
        if provider.gives is Provides.AWAITABLE:
            self._values[provider.function] = await made
            return
        try:
            self._values[provider.function] = await anext(made)
        except StopAsyncIteration:
            raise _yields_nothing(provider) from None
        self._open.append(_Open(provider, made))

    def _value(self, provider: Provider) -> Any:
        provider = self._chosen(provider)
        if provider.function not in self._values:
            self._make_now(provider)
        return self._values[provider.function]

    def _make_now(self, provider: Provider) -> None:
        made = self._call(provider)
        if provider.gives is Provides.VALUE:
            self._values[provider.function] = made
            return
        try:
            self._values[provider.function] = next(made)
        except StopIteration:
            raise _yields_nothing(provider) from None
        self._open.append(_Open(provider, made))

    def _call(self, provider: Provider) -> Any:
        args, kwargs = self.arranged(provider.parameters)
        return provider.function(*args, **kwargs)

    def _chosen(self, provider: Provider) -> Provider:
        return self._overrides.get(provider.function, provider) if self._overrides else provider

    # Closing, the last one first

    def close_in_thread(self, error: BaseException | None) -> None:
        """Close what was made in the thread. Raises the first thing that goes wrong after a
        success."""
        failure = error
        while self._in_thread:
            opened = self._in_thread.pop()
            try:
                opened.close(failure)
            except BaseException as raised:  # noqa: BLE001 - the others are to be closed as well
                failure = _worse(failure, raised, opened)
        if failure is not None and failure is not error:
            raise failure

    async def close(self, error: BaseException | None) -> None:
        """The same on the loop."""
        if isinstance(error, GeneratorExit):
            return  # the coroutine itself is being closed, and can wait for nothing more
        failure = error
        while self._on_loop:
            opened = self._on_loop.pop()
            try:
                if opened.provider.is_async:
                    await opened.aclose(failure)
                else:
                    opened.close(failure)
            except BaseException as raised:  # noqa: BLE001 - the others are to be closed as well
                failure = _worse(failure, raised, opened)
        if failure is not None and failure is not error:
            raise failure


def _worse(failure: BaseException | None, raised: BaseException, opened: _Open) -> BaseException:
    """The execution's failure after a dependency raised this while it was closed."""
    if failure is None:
        return raised
    if isinstance(raised, CancelledError):
        # The first one may know of a thread that goes on.
        return failure if isinstance(failure, CancelledError) else raised
    log.error(
        "the dependency %s failed while it was closed after another failure",
        opened.provider.name,
        exc_info=raised,
    )
    return failure


def _yields_nothing(provider: Provider) -> RuntimeError:
    return RuntimeError(f"the dependency {provider.name} yields nothing")
