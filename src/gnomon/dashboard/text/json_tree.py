"""JSON as a tree for pages, from its own text: numbers stay as they were written.

Its size on a page is bounded, however large the JSON: what is left out is said, with its number.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

MOST_NODES = 500
MOST_TEXT = 65_536  # characters of what is no JSON, or too deep to be read
_MOST_STRING = 2_000  # characters of one string
_DEEPEST = 40
_OPEN_LEVELS = 3
_OPEN_MEMBERS = 40


class JsonNode(msgspec.Struct, frozen=True):
    """A value: of a container with its members, else with its text."""

    name: str | None
    kind: str  # object, array, string, number, word; or more: what is left out
    text: str
    members: tuple["JsonNode", ...] = ()
    is_open: bool = False


class ShownJson(msgspec.Struct, frozen=True):
    """A tree, or where there can be none, text; and whether something is left out."""

    tree: JsonNode | None
    text: str
    cut: bool
    size: int  # bytes of the whole


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order, with those of the same name."""


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
    except (ValueError, RecursionError):
        return ShownJson(None, text[:MOST_TEXT], len(text) > MOST_TEXT, len(content))
    growing = _Growing()
    return ShownJson(growing.node(None, value, 0), "", growing.cut, len(content))


class _Growing:
    def __init__(self) -> None:
        self._left = MOST_NODES
        self.cut = False

    def node(self, name: str | None, value: Any, depth: int) -> JsonNode:
        self._left -= 1
        match value:
            case _Members():
                return self._container(name, "object", "field", value, value, depth)
            case list():
                numbered = ((str(place), each) for place, each in enumerate(value))
                return self._container(name, "array", "item", value, numbered, depth)
            case _Number():
                return JsonNode(name, "number", self._shortened(value))
            case str():
                return JsonNode(name, "string", self._quoted(value))
        return JsonNode(name, "word", json.dumps(value))

    def _container(
        self,
        name: str | None,
        kind: str,
        of: str,
        value: Sequence[Any],
        members: Iterable[tuple[str, Any]],
        depth: int,
    ) -> JsonNode:
        shown: list[JsonNode] = []
        for inner_name, inner in members:
            if self._left <= 0 or depth >= _DEEPEST:
                self.cut = True
                shown.append(JsonNode(None, "more", f"{len(value) - len(shown)} more"))
                break
            shown.append(self.node(inner_name, inner, depth + 1))
        opened = depth < _OPEN_LEVELS and len(value) <= _OPEN_MEMBERS
        return JsonNode(name, kind, _number_of(len(value), of), tuple(shown), opened or depth == 0)

    def _quoted(self, value: str) -> str:
        if len(value) <= _MOST_STRING:
            return json.dumps(value, ensure_ascii=False)
        self.cut = True
        return json.dumps(value[:_MOST_STRING], ensure_ascii=False) + f"… {len(value)} characters"

    def _shortened(self, text: str) -> str:
        if len(text) <= _MOST_STRING:
            return str(text)
        self.cut = True
        return f"{text[:_MOST_STRING]}… {len(text)} digits"


def _number_of(count: int, of: str) -> str:
    return f"1 {of}" if count == 1 else f"{count} {of}s"
