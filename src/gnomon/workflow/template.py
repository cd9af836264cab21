"""Templates of nodes: blanks that the results of other nodes, and the input of the run, fill in.

    {{nodes.extract.result}}, {{nodes.extract.result.files.0.path}}
    {{run.input}}, {{run.input.order}}, {{run.id}}
    {{item}}, {{item.path}}, {{index}}: of an element of a mapped node

A string that is one blank becomes the value, of whatever kind; within a longer string it is written
as text, and anything but text as JSON. The result of a node that has not succeeded is null. A path
into text that holds JSON, as the answer of a webhook does, leads into that JSON.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.targets.blanks import (
    Blank,
    in_quotes,
    may_have_blanks,
    pieces,
    shortened,
    strings,
)

MOST_PLACEHOLDERS = 100
MOST_OUTPUT_BYTES = 65_536
_DOTS = frozenset((".", ".."))
_KNOWN = "{{nodes.<node>.result}}, {{run.input}}, each with a path (.files.0.path), and {{run.id}}"


class CannotRender(ValueError):
    """A template that these values do not fit."""


class Reference(msgspec.Struct, frozen=True):
    """What fills a blank: the result of a node (else of the run), and the path into it."""

    node: str | None
    of: str  # "result", "input", "id"; "item", "index" of a mapped node
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = ("run",) if self.node is None else ("nodes", self.node)
        return ".".join((*(() if self.is_of_element else first), self.of, *self.path))

    @property
    def is_of_element(self) -> bool:
        return self.of in ("item", "index")


class TemplateValues(msgspec.Struct, frozen=True):
    """The values of a run: its input, and the outputs of nodes, as JSON. `too_large`: nodes whose
    results were not kept."""

    run_id: UUID
    input: bytes | None
    outputs: Mapping[str, bytes | None] = {}
    too_large: frozenset[str] = frozenset()
    item: Any = None  # of an element of a mapped node
    index: int | None = None

    def value_of(self, reference: Reference) -> Any:
        """Raises CannotRender."""
        if reference.of == "id":
            return str(self.run_id)
        if reference.is_of_element:
            return self.index if reference.of == "index" else _below(self.item, reference)
        if reference.node is None:
            return _below(_decoded(self.input), reference)
        if reference.node in self.too_large:
            raise CannotRender(
                f"the result of {reference.node} is larger than {MOST_OUTPUT_BYTES} bytes, "
                "and was not kept: let it return a reference"
            )
        return _below(_decoded(self.outputs.get(reference.node)), reference)


def reference_of(blank: str) -> Reference:
    """Raises ValueError for what is no blank of a node."""
    match [step.strip() for step in blank.strip().split(".")]:
        case ["run", "id"]:
            return Reference(None, "id")
        case ["run", "input", *path] if all(path):
            return Reference(None, "input", tuple(path))
        case ["nodes", node, "result", *path] if node and all(path):
            return Reference(node, "result", tuple(path))
        case ["item", *path] if all(path):
            return Reference(None, "item", tuple(path))
        case ["index"]:
            return Reference(None, "index")
    raise ValueError(
        f"{shortened(blank)!r} is not a placeholder; known are {_KNOWN}. "
        "Write {{{{ where {{ is meant as it is"
    )


def references(payload: bytes | None, root: str) -> list[Reference]:
    """The references of all blanks in a JSON text. Raises InvalidTask, with the place."""
    if payload is None or not may_have_blanks(payload):
        return []
    found: list[Reference] = []
    for each in strings(payload, root):
        if "{{" not in each.text:
            continue
        try:
            found += [reference_of(p.text) for p in pieces(each.text) if isinstance(p, Blank)]
        except ValueError as error:
            raise InvalidTask(str(error), each.pointer) from error
    if len(found) > MOST_PLACEHOLDERS:
        detail = f"holds {len(found)} placeholders; at most {MOST_PLACEHOLDERS} are possible"
        raise InvalidTask(detail, root)
    return found


def rendered(payload: bytes, values: TemplateValues) -> bytes:
    """A JSON text with its blanks filled in. Raises CannotRender."""
    return b"".join(_rendered(payload, values.value_of))


def rendered_text(text: str, values: TemplateValues, *, in_url: bool = False) -> str:
    """A text with its blanks filled in; in a URL, no value can be more than one part of it, nor
    lead to another place. Raises CannotRender."""

    def filled() -> Iterator[str]:
        for piece in pieces(text):
            if not isinstance(piece, Blank):
                yield piece
                continue
            value = _as_text(values.value_of(reference_of(piece.text)))
            yield quote(value, safe="") if in_url else value

    found = "".join(filled())
    if in_url and not _DOTS.isdisjoint(map(unquote, urlsplit(found).path.split("/"))):
        raise CannotRender("a part of the URL's path would be . or .., which leads elsewhere")
    return found


def _rendered(payload: bytes, value_of: Callable[[Reference], Any]) -> Iterable[bytes]:
    done = 0
    for each in strings(payload, ""):
        if "{{" not in each.text:
            continue
        parts = [part for part in pieces(each.text) if part != ""]
        if len(parts) == 1 and isinstance(parts[0], Blank) and not each.is_key:
            yield payload[done : each.start]
            yield msgspec.json.encode(value_of(reference_of(parts[0].text)))
            done = each.end
            continue
        yield payload[done : each.start + 1]
        for part in parts:
            if isinstance(part, Blank):
                yield in_quotes(_as_text(value_of(reference_of(part.text))))
            else:
                yield in_quotes(part)
        done = each.end - 1
    yield payload[done:]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _decoded(text: bytes | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CannotRender(f"a value cannot be read as JSON: {error}") from error


def _below(value: Any, reference: Reference) -> Any:
    for place, step in enumerate(reference.path):
        if isinstance(value, str):
            value = _json_in(value)
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            whole = msgspec.structs.replace(reference, path=reference.path[:place])
            raise CannotRender(f"{{{{{reference}}}}}: {whole} {_lacks(value, step)}")
    return value


def _lacks(value: Any, step: str) -> str:
    if value is None:
        return "is null"
    if isinstance(value, list):
        return f"has {len(value)} elements, and no {shortened(step)!r}"
    return (
        f"has no {shortened(step)!r}" if isinstance(value, dict) else "is neither object nor list"
    )


def _json_in(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
