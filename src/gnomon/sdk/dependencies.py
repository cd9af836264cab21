"""Dependencies: what a handler needs beside its arguments, made for each execution."""

from collections.abc import Callable
from typing import Any


class Dependency:
    """A parameter that is not data: its value is what `provider` gives."""

    __slots__ = ("provider",)

    def __init__(self, provider: Callable[..., Any]) -> None:
        self.provider = provider


def Depends(provider: Callable[..., Any]) -> Any:  # noqa: N802 - it stands where a class would
    """Mark a parameter as a dependency, as its default or within `Annotated`."""
    return Dependency(provider)
