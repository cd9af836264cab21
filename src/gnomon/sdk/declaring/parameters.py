"""Reads the parameters of a handler: data, the context, and dependencies."""

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from gnomon.sdk.declaring.dependencies import Dependency
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.executing.context import TaskContext

REQUIRED = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameter(NamedTuple):
    """A parameter of a function that Gnomon calls."""

    name: str
    annotation: Any
    default: Any  # REQUIRED where there is none
    by_keyword: bool  # it can only be given by name
    takes_context: bool = False
    dependency: Dependency | None = None

    @property
    def is_data(self) -> bool:
        return not self.takes_context and self.dependency is None

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


class Shape(NamedTuple):
    """The parameters of a function, and the type that it returns."""

    parameters: tuple[Parameter, ...]
    returns: Any


_NOTHING = Shape((), Any)


def place_of(function: Callable[..., Any]) -> str:
    """Where it is written."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return repr(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def local_names(function: Callable[..., Any], scope: FrameType) -> Mapping[str, Any]:
    """The names that a function within another one may use in its annotations, beside those of its
    module. None of a function that is declared elsewhere: there they mean something else."""
    plain = inspect.unwrap(function)
    is_inner = "<locals>" in getattr(plain, "__qualname__", "")
    is_here = getattr(plain, "__globals__", None) is scope.f_globals
    return scope.f_locals if is_inner and is_here else {}


def shape_of(function: Callable[..., Any], names: Mapping[str, Any]) -> Shape:
    """Read the signature; `names` are local ones. Raises InvalidHandler."""
    hints = _hints(function, names)  # first: newer Pythons read annotations for a signature, too
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, and says nothing of itself
        return _NOTHING
    parameters = tuple(_parameter(function, p, hints) for p in signature.parameters.values())
    return Shape(parameters, hints.get("return", Any))


def _hints(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    annotated = _annotated(function)
    try:
        return typing.get_type_hints(annotated, localns=dict(names), include_extras=True)
    except NameError as error:
        raise InvalidHandler(
            f"{called(function)}: an annotation says {error.name!r}, which is not defined here; "
            "define or import it before the handler, and not under `if TYPE_CHECKING:`"
        ) from error
    except (TypeError, SyntaxError, AttributeError) as error:
        raise InvalidHandler(
            f"{called(function)}: its annotations cannot be read: {error}"
        ) from error


def _annotated(function: Any) -> Any:
    """What has the annotations of a function, a class, an object that can be called."""
    if isinstance(function, partial):
        return _annotated(function.func)
    if inspect.isclass(function):
        return function.__init__
    return function if inspect.isroutine(function) else type(function).__call__


def _parameter(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> Parameter:
    if parameter.kind in _VARIADIC:
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise InvalidHandler(
            f"{called(function)} takes {star}{parameter.name}, but a payload names its arguments: "
            "give it a parameter for each, or a single one called `payload`"
        )
    annotation = hints.get(parameter.name, Any)
    return Parameter(
        parameter.name,
        annotation,
        parameter.default,
        parameter.kind is parameter.KEYWORD_ONLY,
        takes_context=_is_context(annotation),
        dependency=_dependency(annotation, parameter.default),
    )


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_context(each) for each in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, TaskContext)


def _dependency(annotation: Any, default: Any) -> Dependency | None:
    if isinstance(default, Dependency):
        return default
    if get_origin(annotation) is Annotated:
        for each in get_args(annotation)[1:]:
            if isinstance(each, Dependency):
                return each
    return None


def called(function: Callable[..., Any]) -> str:
    """Its name and where it is written, for errors."""
    return f"{getattr(function, '__qualname__', function)} ({place_of(function)})"
