"""Turns msgspec's validation errors into errors with a JSON pointer and a hint at what is right."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import inspect

from gnomon.model.errors import InvalidTask

_T = TypeVar("_T")
_PLACE = re.compile(r"^(?P<detail>.*) - at `(?P<key>key in )?\$?(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_OFFSET = re.compile(r"\(byte (\d+)\)")
_NO_ZONE = "with a timezone component"


def explain(error: msgspec.ValidationError, body: type) -> InvalidTask:
    """The error for a value that msgspec could not convert to `body`."""
    place = _PLACE.match(str(error))
    detail = place["detail"] if place else str(error)
    pointer = _pointer(place["path"]) if place else ""
    types = _types_at(body, pointer)
    if unknown := _UNKNOWN.match(detail):
        return _unknown_field(unknown["name"], pointer, types)
    if _NO_ZONE in detail:
        return InvalidTask("needs a time zone, e.g. 2026-01-01T09:00:00Z", pointer)
    choices = _choices(types)
    if choices and detail.startswith("Invalid"):
        detail = f"{detail}; use one of {', '.join(choices)}"
    return InvalidTask(detail, pointer)


def of_texts(values: Mapping[str, str], kind: type[_T]) -> _T:
    """The values of an address, or of a filter that was typed, as their type. Raises InvalidTask.

    msgspec takes the text "null" for nothing: a condition that was given would be no condition, and
    everything would match."""
    try:
        found = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise explain(error, kind) from error
    for name, value in values.items():
        if value.lower() == "null" and msgspec.to_builtins(found).get(name) is None:
            raise InvalidTask(f"{value!r} is no value of this; leave it out", f"/{name}")
    return found


def position(error: msgspec.DecodeError, body: bytes) -> str:
    """Where the JSON is malformed, for people: line and column."""
    offset = _OFFSET.search(str(error))
    at = int(offset[1]) if offset else len(body)
    line = body.count(b"\n", 0, at) + 1
    column = at - (body.rfind(b"\n", 0, at) + 1) + 1
    words = _OFFSET.sub("", str(error)).removeprefix("JSON is malformed: ").strip()
    return f"{words} at line {line}, column {column} (byte {at})"


def _pointer(path: str) -> str:
    steps: list[str] = []
    for step in _STEP.finditer(path):
        if step["index"] == "...":
            break  # a value of a mapping: msgspec does not say which
        name = step["name"] if step["name"] is not None else step["index"]
        steps.append(name.replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in steps)


def _unknown_field(name: str, pointer: str, types: list[inspect.Type]) -> InvalidTask:
    known = sorted(_field_names(types))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
    escaped = name.replace("~", "~0").replace("/", "~1")
    return InvalidTask(f"unknown field {name!r}; {hint}", f"{pointer}/{escaped}")


def _types_at(body: type, pointer: str) -> list[inspect.Type]:
    """Every type that is allowed at the pointer."""
    types = list(_plain(inspect.type_info(body)))
    for step in pointer.split("/")[1:]:
        types = [
            plain for each in types for inner in _inside(each, step) for plain in _plain(inner)
        ]
    return types


def _plain(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The members of a union, without metadata."""
    if isinstance(kind, inspect.Metadata):
        yield from _plain(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _plain(each)
    else:
        yield kind


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        if step == kind.tag_field:
            yield inspect.LiteralType(values=(kind.tag,))
        yield from (field.type for field in kind.fields if field.encode_name == step)
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        yield kind.item_type


def _field_names(types: list[inspect.Type]) -> set[str]:
    names = set()
    for kind in types:
        if isinstance(kind, inspect.StructType):
            names |= {field.encode_name for field in kind.fields}
            names |= {kind.tag_field} if kind.tag_field else set()
    return names


def _choices(types: list[inspect.Type]) -> list[str]:
    choices: list[str] = []
    for kind in types:
        if isinstance(kind, inspect.LiteralType):
            choices += map(str, kind.values)
        elif isinstance(kind, inspect.EnumType):
            choices += (str(member.value) for member in kind.cls)
    return choices
