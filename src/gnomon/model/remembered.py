"""Results that are remembered by the text that they were made of. Pure.

Tenants write such texts, so what is kept for them is bounded in bytes as well as in number.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

KEPT_BYTES = 1024  # of one text; what is made of a longer one is made every time
MOST_KEPT = 4096

_Key = TypeVar("_Key", str, bytes, tuple[bytes, str])
_Made = TypeVar("_Made")


class _Remembered(dict[_Key, _Made]):
    """Forgets everything when it is full: what is used often is back at once, and a hit costs no
    more than a look into a dict."""

    def __init__(self, make: Callable[[_Key], _Made], kept_bytes: int, most_bytes: int) -> None:
        super().__init__()
        self._make: Callable[[_Key], _Made] = make
        self._kept_bytes = kept_bytes
        self._most_bytes = most_bytes
        self._bytes = 0

    def __missing__(self, key: _Key) -> _Made:
        made = self._make(key)
        size = sum(map(sys.getsizeof, key)) if isinstance(key, tuple) else sys.getsizeof(key)
        if size <= self._kept_bytes:
            if len(self) >= MOST_KEPT or self._bytes + size > self._most_bytes:
                self.clear()
                self._bytes = 0
            self._bytes += size
            self[key] = made
        return made


def remembered(make: Callable[[_Key], _Made]) -> Callable[[_Key], _Made]:
    """The function, which remembers what it made of short texts. Errors are not remembered."""
    return _Remembered(make, KEPT_BYTES, MOST_KEPT * KEPT_BYTES).__getitem__


def remembered_long(
    kept_bytes: int, most_bytes: int
) -> Callable[[Callable[[_Key], _Made]], Callable[[_Key], _Made]]:
    """The same of longer texts, up to so many bytes each and all together, for what takes long to
    make."""
    return lambda make: _Remembered(make, kept_bytes, most_bytes).__getitem__
