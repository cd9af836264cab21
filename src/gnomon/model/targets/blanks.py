"""Blanks in templates: `{{name}}` within the strings of a JSON text.

A literal `{{` is written `{{{{`. A run of braces is read from the left, four at a time: of what is
left over, two open a blank, and an odd one is itself. `}}` outside a blank is itself.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')
_OPENING = re.compile(r"\{\{+")
_BRACES = re.compile(rb"\{\{|\\u007[bB]")
_SHOWN = 60  # characters

_written = json.JSONEncoder(ensure_ascii=False).encode


class Blank(NamedTuple):
    """The text between the braces of a blank."""

    text: str


class JsonString(NamedTuple):
    """A string of a JSON text: where it starts and ends, what it says, and where it is."""

    start: int
    end: int
    text: str
    pointer: str
    is_key: bool


def may_have_blanks(payload: bytes) -> bool:
    return _BRACES.search(payload) is not None


def strings(payload: bytes, root: str) -> Iterator[JsonString]:
    """Every string of valid JSON; only those with braces have a pointer, which begins with
    `root`."""
    path: list[str | int | None] = []  # an object's key, None before it is known; an array's index
    for token in _TOKEN.finditer(payload):
        match token[0]:
            case b"{":
                path.append(None)
            case b"[":
                path.append(0)
            case b"}" | b"]":
                path.pop()
            case b",":
                here = path[-1]
                path[-1] = here + 1 if isinstance(here, int) else None
            case quoted:
                text: str = json.loads(quoted)
                is_key = bool(path) and path[-1] is None
                if is_key:
                    path[-1] = text
                pointer = _pointer(root, path) if "{{" in text else ""
                yield JsonString(token.start(), token.end(), text, pointer, is_key)


def pieces(text: str) -> Iterator[str | Blank]:
    """A text, cut into what stands as it is and the blanks between. Raises ValueError for a blank
    that is never closed."""
    done = 0
    while opening := _OPENING.search(text, done):
        escapes, left = divmod(len(opening[0]), 4)
        yield text[done : opening.start()] + "{{" * escapes + "{" * (left % 2)
        done = opening.end()
        if left >= 2:
            closing = text.find("}}", done)
            if closing < 0:
                raise ValueError(
                    f"{{{{{shortened(text[done:])} is never closed: end the placeholder with }}}}, "
                    "or write {{{{ where {{ is meant as it is"
                )
            yield Blank(text[done:closing])
            done = closing + 2
    yield text[done:]


def in_quotes(text: str) -> bytes:
    """The text between the quotes of a JSON string.

    Half a surrogate pair, which UTF-8 cannot hold, is replaced by just what JSON escapes it as.
    """
    return _written(text)[1:-1].encode(errors="backslashreplace")


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _pointer(root: str, path: list[str | int | None]) -> str:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    return "/".join([root, *steps])
