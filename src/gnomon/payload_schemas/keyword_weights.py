"""Costs of single keywords of a JSON Schema, in steps of about 20 ns.

The weights are measured (jsonschema-rs 0.60), for the worst that a payload can hold.
"""

from collections.abc import Iterable
from typing import Any

from gnomon.payload_schemas.pattern_weight import weigh

_WHOLE = 10  # to compare with a number among other things
_REAL = 120  # to compare with a number that is not whole, or larger than 64 bits
_NESTED = 10
_MULTIPLE = 200
_UNIQUE, _UNIQUE_REAL = 30, 400
_FORMAT, _COSTLY_FORMAT = 1, 10
_COSTLY_FORMATS = frozenset(("idn-email", "idn-hostname"))
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LARGEST = 2**63


def steps_of(schema: dict[str, Any]) -> int:
    """Steps of a schema's own keywords for each value, without its subschemas."""
    steps = 1 + sum(_is_real(schema.get(key)) * _REAL for key in _BOUNDS)
    if "const" in schema:
        steps += 1 if _is_whole(schema["const"]) else _weight(schema["const"])
    if isinstance(schema.get("enum"), list):
        steps += _choice(schema["enum"])
    if isinstance(schema.get("multipleOf"), float):
        steps += _MULTIPLE
    if schema.get("uniqueItems") is True:
        steps += _UNIQUE
    steps += _length(schema.get("required"))
    steps += sum(weigh(pattern).once for pattern in patterns_of(schema))
    for key in ("dependentRequired", "dependencies"):
        needed = schema.get(key)
        if isinstance(needed, dict):
            steps += len(needed) + sum(_length(names) for names in needed.values())
    return steps


def steps_by_real(schema: dict[str, Any]) -> int:
    """Additional steps for each number that is not an integer."""
    return _UNIQUE_REAL if schema.get("uniqueItems") is True else 0


def steps_by_byte(schema: dict[str, Any]) -> int:
    """Additional steps for each byte of a string."""
    steps = 0
    if isinstance(schema.get("format"), str):
        steps += _COSTLY_FORMAT if schema["format"] in _COSTLY_FORMATS else _FORMAT
    return steps + sum(weigh(pattern).by_byte for pattern in patterns_of(schema))


def patterns_of(schema: dict[str, Any]) -> list[str]:
    """The patterns among a schema's own keywords."""
    names = schema.get("patternProperties")
    patterns = [*names] if isinstance(names, dict) else []
    pattern = schema.get("pattern")
    return [*patterns, pattern] if isinstance(pattern, str) else patterns


def _choice(values: list[Any]) -> int:
    """Steps of `enum` and `const`. Strings alone, and integers alone, are found by hash."""
    if all(isinstance(each, str) for each in values) or all(_is_whole(each) for each in values):
        return 1
    return sum(_weight(each) for each in values)


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        return _NESTED + _weights(value.values())
    if isinstance(value, list):
        return _NESTED + _weights(value)
    if _is_whole(value):
        return _WHOLE
    return _REAL if _is_real(value) else 1


def _weights(values: Iterable[Any]) -> int:
    return sum(_weight(each) for each in values)


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _is_real(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and not _is_whole(value))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0
