"""JSON as a tree for pages, from its own text: numbers stay as they were written."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

MOST_NODES = 400
MOST_TEXT = 65_536  # characters of JSON that is too large, or too deep, for a tree
_DEEPEST = 40


class JsonNode(msgspec.Struct, frozen=True):
    """A value: of a container with its members, else with its text."""

    name: str | None
    kind: str  # object, array, string, number, word
    text: str
    members: tuple["JsonNode", ...] = ()


class ShownJson(msgspec.Struct, frozen=True):
    """A tree, or where it would be too large, text; and whether that is cut."""

    tree: JsonNode | None
    text: str
    cut: bool = False


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _TooLarge(Exception):
    pass


def shown_json(content: bytes) -> ShownJson:
    """How to show it."""
    text = content.decode("utf-8", "replace")
    try:
        value = json.loads(
            text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
            object_pairs_hook=_Members,
        )
        return ShownJson(_Growing().node(None, value, 0), text[:MOST_TEXT], len(text) > MOST_TEXT)
    except (ValueError, RecursionError, _TooLarge):
        return ShownJson(None, text[:MOST_TEXT], len(text) > MOST_TEXT)


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order, with those of the same name."""


class _Growing:
    def __init__(self) -> None:
        self._left = MOST_NODES

    def node(self, name: str | None, value: Any, depth: int) -> JsonNode:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise _TooLarge
        match value:
            case _Members():
                members = self._each(value, depth)
                return JsonNode(name, "object", _number_of(len(members), "field"), members)
            case list():
                numbered = ((str(place), each) for place, each in enumerate(value))
                members = self._each(numbered, depth)
                return JsonNode(name, "array", _number_of(len(members), "item"), members)
            case _Number():
                return JsonNode(name, "number", str(value))
            case str():
                return JsonNode(name, "string", json.dumps(value, ensure_ascii=False))
        return JsonNode(name, "word", json.dumps(value))

    def _each(self, members: Iterable[tuple[str, Any]], depth: int) -> tuple[JsonNode, ...]:
        return tuple(self.node(name, value, depth + 1) for name, value in members)


def _number_of(count: int, of: str) -> str:
    return f"1 {of}" if count == 1 else f"{count} {of}s"
