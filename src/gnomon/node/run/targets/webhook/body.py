"""The body of an answer: the beginning of it is kept as text."""

import zlib
from collections.abc import Callable

from gnomon.model.text import storable

KEPT_BODY_BYTES = 4096
# A longer answer is not worth reading to its end for the sake of the connection.
READ_BYTES = 64 * 1024
_MOST_WORD_CHARACTERS = 100

_PLAIN = frozenset(("", "identity"))
_INFLATED = frozenset(("gzip", "x-gzip", "deflate"))
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_BARE = -zlib.MAX_WBITS


class KeptBody:
    """The stored part of a body. A coding that was not asked for is undone where that is cheap, and
    never further than what is kept: a few bytes of it may stand for gigabytes."""

    __slots__ = ("_bytes", "_coding", "_decode", "_is_readable", "read")

    def __init__(self, coding: str) -> None:
        self.read = 0
        self._coding = coding
        self._bytes = b""
        self._decode: Callable[[bytes, int], bytes] | None = None
        self._is_readable = coding in _PLAIN or coding in _INFLATED

    def add(self, chunk: bytes) -> None:
        self.read += len(chunk)
        room = KEPT_BODY_BYTES - len(self._bytes)
        if not chunk or room <= 0 or not self._is_readable:
            return
        try:
            self._bytes += self._decoded(chunk, room)
        except zlib.error:
            self._is_readable = False

    def text(self, *, cut_off: bool = False) -> str | None:
        """What came, and where it broke off before its end a note that says so."""
        note = f"<the body was cut off after {self.read} bytes>" if cut_off else ""
        parts = [self._bytes.decode("utf-8", "replace"), note]
        if not self._is_readable:
            coding = self._coding[:_MOST_WORD_CHARACTERS]
            more = "more than " if self.read > READ_BYTES else ""
            parts = [f"<{more}{min(self.read, READ_BYTES)} bytes of {coding}>", note]
        return storable("\n".join(part for part in parts if part)) or None

    def _decoded(self, chunk: bytes, room: int) -> bytes:
        if self._coding in _PLAIN:
            return chunk[:room]
        if self._decode is None:
            # Some send the bare stream as "deflate", without the header of zlib that belongs there.
            bare = self._coding == "deflate" and chunk[0] & 0x0F != zlib.DEFLATED
            self._decode = zlib.decompressobj(_BARE if bare else _GZIP_OR_ZLIB).decompress
        return self._decode(chunk, room)
