"""Values as JSON: msgspec's types, and pydantic's models where pydantic is installed."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

# Of JSON that is no value of a type: msgspec's and pydantic's errors, and that of nesting too deep.
UNREADABLE = (ValueError, RecursionError)

_encoder: msgspec.json.Encoder
_ordering_encoder: msgspec.json.Encoder


def encoded(value: object, *, ordered: bool = False) -> bytes:
    """As JSON; `ordered`: the same for all values that are equal. Raises whatever classes in it
    raise, TypeError and ValueError mostly."""
    text = (_ordering_encoder if ordered else _encoder).encode(value)
    if b"null" in text:
        _check_numbers(value)
    return text


def decoder(annotation: Any) -> "msgspec.json.Decoder[Any]":
    """Reads JSON as this type."""
    return msgspec.json.Decoder(annotation, dec_hook=_decode)


def is_model(kind: Any) -> bool:
    """Whether it is a class of pydantic's, by what it can do: pydantic need not be installed."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json")


def unreadable(annotation: Any) -> str | None:
    """What in a type cannot be read from JSON, in words; None where all can."""
    try:
        info = inspect.type_info(annotation)
    except (TypeError, NameError) as error:
        return str(error)
    for each in _parts(info, set()):
        # Every class within it that msgspec leaves to others.
        custom = each.cls if isinstance(each, inspect.CustomType) else object
        if custom is not object and not is_model(custom):
            return f"{getattr(custom, '__qualname__', custom)} cannot be read from JSON"
    return None


def has_sets(annotation: Any) -> bool:
    """Whether a type that can be read has sets in it, whose order differs between processes."""
    parts = _parts(inspect.type_info(annotation), set())
    return any(isinstance(each, inspect.SetType | inspect.FrozenSetType) for each in parts)


def _parts(info: Any, seen: set[int]) -> Iterator[inspect.Type]:
    """A type, and every one within it."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, inspect.Type):
        yield info
    if isinstance(info, inspect.Type | inspect.Field):
        for name in info.__struct_fields__:
            yield from _parts(getattr(info, name), seen)
    elif isinstance(info, tuple):
        for each in info:
            yield from _parts(each, seen)


def encode_other(value: Any) -> Any:
    """What msgspec is to write in place of a value that it does not know. Raises TypeError."""
    if is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True).encode())
    raise TypeError(f"{type(value).__qualname__} cannot be written as JSON")


def _check_numbers(value: object) -> None:
    """Raises ValueError for numbers that JSON does not have: they would be read as nothing."""
    waiting = [msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"{one} cannot be written as JSON")


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if is_model(type(value)) else None


def _decode(kind: Any, value: Any) -> Any:
    if kind is object:
        return value
    try:
        # As JSON, and not as Python values: strict models take a date only from JSON's text.
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_told(error)) from error


def _told(error: Any) -> str:
    """What pydantic found, in one line and without addresses of its pages."""
    if not hasattr(error, "errors"):
        return str(error)
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, each["loc"])), each["msg"]) if part)
        for each in found
    )


_encoder = msgspec.json.Encoder(enc_hook=encode_other)
_ordering_encoder = msgspec.json.Encoder(enc_hook=encode_other, order="deterministic")
