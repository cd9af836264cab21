"""Mapped nodes: one task for each element of a list, and the list of what these return."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.ids import uuid7
from gnomon.workflow.template import CannotRender, TemplateValues, rendered

MOST_ELEMENTS = 10_000
MOST_LIST_BYTES = 1 << 20
FIRST_PLACE = 10_000_000  # of elements: after all nodes of a definition


def items_of(template: bytes, values: TemplateValues) -> list[Any]:
    """The elements. Raises CannotRender."""
    found = msgspec.json.decode(rendered(template, values))
    if isinstance(found, str):
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(found)  # what a webhook answers is text
    if not isinstance(found, list):
        raise CannotRender("map: the value is no list")
    if len(found) > MOST_ELEMENTS:
        raise CannotRender(f"map: {len(found)} elements; at most {MOST_ELEMENTS} are possible")
    return found


def with_item(values: TemplateValues, items: Sequence[Any], index: int) -> TemplateValues:
    """The values for one element."""
    return msgspec.structs.replace(values, item=items[index], index=index)


def element_id(mapped: UUID, index: int) -> UUID:
    """The id of an element's task, always the same, so that expanding twice does nothing; with the
    time of the mapped node's id, so that its archive is there."""
    digest = hashlib.sha256(mapped.bytes + index.to_bytes(4)).digest()
    return uuid7(mapped.int >> 80, int.from_bytes(digest[:10]))


def element_names(node: str, indexes: Sequence[int]) -> Iterator[str]:
    """What elements are called: `load[3]`."""
    return (f"{node}[{index}]" for index in indexes)


def first_place(place: int) -> int:
    """The place of the first element of the node at a place."""
    return FIRST_PLACE + place * MOST_ELEMENTS
