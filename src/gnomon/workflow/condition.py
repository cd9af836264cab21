"""Conditions of nodes: comparisons of values, and lists of which all or any must hold."""

from typing import Any

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.workflow.template import CannotRender, TemplateValues, rendered

MOST_COMPARISONS = 100
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in")


def check_condition(condition: bytes, root: str) -> None:
    """Raises InvalidTask, with the place."""
    try:
        found = msgspec.json.decode(condition)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidTask(f"cannot be read: {error}", root) from error
    if (number := _check(found, root, depth=0)) > MOST_COMPARISONS:
        detail = f"holds {number} comparisons; at most {MOST_COMPARISONS} are possible"
        raise InvalidTask(detail, root)


def holds(condition: bytes, values: TemplateValues) -> bool:
    """Whether a condition holds for these values. Raises CannotRender."""
    return _holds(msgspec.json.decode(rendered(condition, values)))


def _check(found: Any, pointer: str, depth: int) -> int:
    """Gives the number of comparisons."""
    if depth > 10:
        raise InvalidTask("is nested more than 10 deep", pointer)
    match found:
        case {"all": [_, *_] as parts, **rest} | {"any": [_, *_] as parts, **rest} if not rest:
            word = "all" if "all" in found else "any"
            return sum(
                _check(part, f"{pointer}/{word}/{place}", depth + 1)
                for place, part in enumerate(parts)
            )
        case {"left": _, "op": op, "right": _, **rest} if not rest:
            if op not in _OPERATORS:
                raise InvalidTask(f"must be one of {', '.join(_OPERATORS)}", f"{pointer}/op")
            return 1
    raise InvalidTask(
        'must be {"left": …, "op": …, "right": …}, or {"all": […]} or {"any": […]} of such', pointer
    )


def _holds(found: Any) -> bool:
    if "all" in found:
        return all(map(_holds, found["all"]))
    if "any" in found:
        return any(map(_holds, found["any"]))
    left, right = found["left"], found["right"]
    match found["op"]:
        case "==":
            return bool(_kind(left) == _kind(right) and left == right)
        case "!=":
            return not (_kind(left) == _kind(right) and left == right)
        case "in":
            return _is_in(left, right)
        case op:
            return _ordered(left, op, right)


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _is_in(left: Any, right: Any) -> bool:
    if isinstance(right, list):
        return any(_kind(left) == _kind(each) and left == each for each in right)
    if isinstance(right, str) and isinstance(left, str):
        return left in right
    raise CannotRender(f"in needs a list, or two texts; got {_named(left)} and {_named(right)}")


def _ordered(left: Any, op: str, right: Any) -> bool:
    if _kind(left) != _kind(right) or _kind(left) not in (float, str):
        raise CannotRender(
            f"{op} compares two numbers, or two texts; got {_named(left)} and {_named(right)}"
        )
    less, equal = left < right, left == right
    return bool({"<": less, "<=": less or equal, ">": not less and not equal}.get(op, not less))


def _named(value: Any) -> str:
    names = {float: "a number", str: "a text", bool: "true or false", list: "a list"}
    return "null" if value is None else names.get(_kind(value), "an object")
