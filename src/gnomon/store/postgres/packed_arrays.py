"""Arrays of keys, moments and places, written for PostgreSQL as a whole.

The driver writes an array element by element, and asks of each whether it is an array: 0.3 to
0.8 µs for one. The columns that differ from task to task are most of what a claim and a settlement
cost the node in the driver, so they are written here, in the same binary format, by functions that
look at all elements at once.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any
from uuid import UUID

from gnomon.store.postgres.array_types import ARRAYS

_EMPTY = Struct("!iiI")  # dimensions, whether some are NULL, the type of the elements
_HEADER = Struct("!iiIii")  # the same, how many, and the number of the first
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)
_MOMENT = Struct("!d")
_PLACE = Struct("!IH")
_SWAPS = sys.byteorder == "little"

Column = Sequence[Any]
_Whole = Callable[[Any], bytes | bytearray]  # all elements of a column without NULL
_One = Callable[[Any], bytes]
_Value = Callable[[bytes], Any]


def _keys(column: Sequence[UUID]) -> bytes:
    return _LENGTH.pack(16).join([b"", *[key.bytes for key in column]])


def _moments(column: Sequence[float]) -> bytearray:
    return _woven((_lengths(8, column), 4), (_numbers("d", column), 8))


def _places(column: Sequence[tuple[int, int]]) -> bytearray:
    numbers = list(chain.from_iterable(column))
    blocks, offsets = _numbers("I", numbers[::2]), _numbers("H", numbers[1::2])
    return _woven((_lengths(6, column), 4), (blocks, 4), (offsets, 2))


def _lengths(width: int, column: Column) -> bytes:
    return _LENGTH.pack(width) * len(column)


def _numbers(code: str, column: Sequence[float]) -> bytes:
    numbers = array(code, column)
    if _SWAPS:
        numbers.byteswap()
    return numbers.tobytes()


def _woven(*parts: tuple[bytes, int]) -> bytearray:
    """So many bytes of the first, so many of the second, and again."""
    stride = sum(width for _, width in parts)
    data, width = parts[0]
    woven, place = bytearray(len(data) // width * stride), 0
    for data, width in parts:
        for byte in range(width):
            woven[place + byte :: stride] = data[byte::width]
        place += width
    return woven


class PackedArray:
    """How an array of one type is written and read."""

    def __init__(self, element: str, width: int, whole: _Whole, one: _One, value: _Value) -> None:
        self.name, (self.number, self._element) = f"_{element}", ARRAYS[element]
        self._width, self._whole, self._one, self._value = width, whole, one, value

    def write(self, column: Column) -> bytes:
        if not column:
            return _EMPTY.pack(0, 0, self._element)
        try:
            return self._header(column) + self._whole(column)
        except (AttributeError, TypeError):
            pass  # one of them is None
        try:
            return self._header(column, some_null=True) + self._one_by_one(column)
        except (AttributeError, TypeError, struct.error) as error:
            raise ValueError(f"not for an array {self.name}: {error}") from None

    def _header(self, column: Column, *, some_null: bool = False) -> bytes:
        return _HEADER.pack(1, some_null, self._element, len(column), 1)

    def _one_by_one(self, column: Column) -> bytes:
        length = _LENGTH.pack(self._width)
        return b"".join([_NULL if each is None else length + self._one(each) for each in column])

    def read(self, data: bytes) -> list[Any]:
        dimensions, _, _ = _EMPTY.unpack_from(data)
        if not dimensions:
            return []
        if dimensions > 1:
            raise ValueError(f"{self.name} has {dimensions} dimensions")
        (_, _, _, count, _), place = _HEADER.unpack_from(data), _HEADER.size
        column: list[Any] = []
        for _ in range(count):
            (width,) = _LENGTH.unpack_from(data, place)
            place += _LENGTH.size
            column.append(None if width < 0 else self._value(data[place : place + width]))
            place += max(0, width)
        return column


_PACKED = (
    PackedArray("uuid", 16, _keys, lambda key: bytes(key.bytes), lambda data: UUID(bytes=data)),
    PackedArray("float8", 8, _moments, _MOMENT.pack, lambda data: _MOMENT.unpack(data)[0]),
    PackedArray("tid", 6, _places, lambda place: _PLACE.pack(*place), _PLACE.unpack),
)


def pack_arrays(connection: Any) -> None:
    """For a new connection that claims and settles. In public the driver lets no array be written
    by others. What it was told of other types is forgotten by that: tell it afterwards."""
    settings = connection._protocol.get_settings()
    for each in _PACKED:
        settings.add_python_codec(
            each.number, each.name, "pg_catalog", [], "array", each.write, each.read, "binary"
        )
