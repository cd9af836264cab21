"""Requests to the API as values: what is sent, and what the answer is read as."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec

T = TypeVar("T")

LARGEST_PAGE = 500

_ROOT = "/api/v1"
_SAFE_TO_REPEAT = ("GET", "PUT", "DELETE")


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One operation of the API with its arguments."""

    method: str
    path: str
    answer: Any = None  # the type of the answer; None: there is none
    member: str | None = None  # of the answer, that holds what is returned
    receipt: Any = None  # the type of the answer to keys that may not read
    body: Any = msgspec.UNSET
    query: Mapping[str, object] = {}
    keyed: bool = False  # the API takes an Idempotency-Key
    key: str | None = None  # the caller's own one
    reads_only: bool = False  # it changes nothing, though it is a POST

    @property
    def safe_to_repeat(self) -> bool:
        """Whether it may be sent again when nobody knows if it took effect."""
        return self.keyed or self.reads_only or self.method in _SAFE_TO_REPEAT

    @property
    def location(self) -> str:
        """The path and query."""
        given = {name: _text(value) for name, value in self.query.items() if value is not None}
        return f"{_ROOT}{self.path}" + (f"?{urlencode(given)}" if given else "")

    @property
    def content(self) -> bytes | None:
        return None if self.body is msgspec.UNSET else msgspec.json.encode(self.body)


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A list of the API with its filters. `limit` is of all items, None: no limit."""

    path: str
    member: str
    item: Any
    query: Mapping[str, object] = {}
    limit: int | None = None
    cursor: str | None = None

    def call(self) -> "Call[ListedItems[T]]":
        """The request for the next page."""
        most = LARGEST_PAGE if self.limit is None else min(self.limit, LARGEST_PAGE)
        query = {**self.query, "limit": most, "cursor": self.cursor}
        return Call(method="GET", path=self.path, query=query)

    def after(self, page: "ListedItems[T]") -> "Listing[T] | None":
        """The rest of the list; None where there is none, or enough has been read."""
        left = None if self.limit is None else self.limit - len(page.items)
        if page.next_cursor is None or (left is not None and left <= 0):
            return None
        return msgspec.structs.replace(self, limit=left, cursor=page.next_cursor)


class ListedItems(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list. `next_cursor` starts the next one; None: this is the last."""

    items: list[T]
    next_cursor: str | None


def segment(text: str | UUID) -> str:
    """A part of a path, whatever is in it."""
    quoted = quote(str(text), safe="")
    # A segment of dots would be resolved as a relative path.
    return quoted.replace(".", "%2E") if quoted.strip(".") == "" else quoted


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
