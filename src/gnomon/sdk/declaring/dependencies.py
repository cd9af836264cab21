"""Dependencies: what a handler needs beside its arguments, such as a pool or a client.

A provider is a function or a generator, synchronous or not. It may take the context and have
dependencies of its own. Next: `provided.py` calls providers for an execution.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Dependency:
    """A parameter that is not data: its value is what `provider` gives."""

    __slots__ = ("provider",)

    def __init__(self, provider: Callable[..., Any]) -> None:
        self.provider = provider

    def __repr__(self) -> str:
        return f"Depends({getattr(self.provider, '__qualname__', self.provider)})"


@overload
def Depends(provider: Callable[..., AsyncGenerator[T, None]], /) -> T: ...
@overload
def Depends(provider: Callable[..., AsyncIterator[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., Generator[T, None, None]], /) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., Awaitable[T]], /) -> T: ...
@overload
def Depends(provider: Callable[..., T], /) -> T: ...
def Depends(provider: Callable[..., Any], /) -> Any:  # noqa: N802 - as a class: it is an annotation
    """Mark a parameter as a dependency: as its default, or within `Annotated`. Its value is what
    `provider` returns or yields, once for each execution. What follows the `yield` is run after the
    handler."""
    return Dependency(provider)
