"""Groups of options: a command takes one parameter for several options that belong together."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar

import msgspec

R = TypeVar("R")


class OptionGroup(msgspec.Struct):
    """Options of a command. Each field is one, annotated like a parameter of a command."""


def with_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Shows Typer the options in each OptionGroup instead of the parameter that takes the group."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {each.name: each.annotation for each in parameters if _is_group(each)}
    options = [option for each in parameters for option in _options(each)]

    @wraps(command)
    def called(**given: Any) -> R:
        made = {
            name: group(**{option: given.pop(option) for option in group.__struct_fields__})
            for name, group in groups.items()
        }
        return command(**given, **made)

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    called.__annotations__ = {option.name: option.annotation for option in options}
    return called


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    shown: Iterable[inspect.Parameter] = (parameter,)
    if _is_group(parameter):
        shown = inspect.signature(parameter.annotation).parameters.values()
    # By keyword, so that their order is free: Typer passes them so.
    return (each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown)


def _is_group(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    return isinstance(kind, type) and issubclass(kind, OptionGroup)
