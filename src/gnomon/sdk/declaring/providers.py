"""Providers, read once: what each takes, and how it is called."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

from gnomon.sdk.declaring.parameters import REQUIRED, Parameter, called, shape_of
from gnomon.sdk.errors import InvalidHandler


class Provides(Enum):
    """How a provider gives its value."""

    VALUE = auto()
    GENERATOR = auto()
    AWAITABLE = auto()
    ASYNC_GENERATOR = auto()


class Provider:
    """A function that gives the value of a dependency."""

    __slots__ = ("function", "gives", "is_async", "parameters", "wanted")

    def __init__(
        self, function: Callable[..., Any], parameters: tuple["Supplied", ...], gives: Provides
    ) -> None:
        self.function = function
        self.parameters = parameters
        self.gives = gives
        self.is_async = gives in (Provides.AWAITABLE, Provides.ASYNC_GENERATOR)
        self.wanted = tuple(each.provider for each in parameters if each.provider is not None)

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


class Supplied:
    """A parameter that Gnomon fills in: by the context, by a provider, by its own default, or by
    none of these, and then it is data."""

    __slots__ = ("by_keyword", "default", "name", "provider", "takes_context")

    def __init__(
        self, parameter: Parameter, provider: Provider | None, default: Any = REQUIRED
    ) -> None:
        self.name = parameter.name
        self.by_keyword = parameter.by_keyword
        self.takes_context = parameter.takes_context
        self.provider = provider
        self.default = default


class Providers:
    """Reads providers, each once, with what they need. Raises InvalidHandler."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names  # in scope where the handler is declared
        self._known: dict[Callable[..., Any], Provider] = {}
        self._within: list[Callable[..., Any]] = []

    def supplied(self, parameters: Iterable[Parameter]) -> tuple[Supplied, ...]:
        """The parameters of a handler."""
        return tuple(Supplied(each, self._of(each)) for each in parameters)

    def provider(self, function: Callable[..., Any]) -> Provider:
        if not callable(function) or not isinstance(function, Hashable):
            raise InvalidHandler(f"Depends({function!r}): give it a function")
        if function in self._known:
            return self._known[function]
        if function in self._within:
            cycle = [*self._within[self._within.index(function) :], function]
            raise InvalidHandler(f"dependencies need each other: {' -> '.join(map(_name, cycle))}")
        self._within.append(function)
        parameters = shape_of(function, self._names).parameters
        made = Provider(function, tuple(map(self._filled, parameters)), _gives(function))
        self._within.pop()
        self._known[function] = made
        return made

    def _filled(self, parameter: Parameter) -> Supplied:
        if parameter.is_data and parameter.is_required:
            raise InvalidHandler(
                f"{called(self._within[-1])}: a dependency cannot have the parameter "
                f"{parameter.name}: it may take a TaskContext, what Depends gives, and parameters "
                "with a default"
            )
        default = parameter.default if parameter.is_data else REQUIRED
        return Supplied(parameter, self._of(parameter), default)

    def _of(self, parameter: Parameter) -> Provider | None:
        dependency = parameter.dependency
        return None if dependency is None else self.provider(dependency.provider)


def functions_of(provider: Provider) -> Iterator[Callable[..., Any]]:
    """The provider's, and those of all that it needs."""
    yield provider.function
    for each in provider.wanted:
        yield from functions_of(each)


def _gives(function: Callable[..., Any]) -> Provides:
    plain = inspect.unwrap(function)
    if not inspect.isroutine(plain) and not inspect.isclass(plain):
        plain = getattr(plain, "__call__", plain)  # noqa: B004 - an object that can be called
    if inspect.isasyncgenfunction(plain):
        return Provides.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(plain):
        return Provides.GENERATOR
    if inspect.iscoroutinefunction(plain):
        return Provides.AWAITABLE
    return Provides.VALUE


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
