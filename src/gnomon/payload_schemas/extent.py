"""Estimates how much work a payload is for the checker, without parsing it as JSON."""

import re
from itertools import accumulate

import msgspec

from gnomon.payload_schemas.survey import Cost

_A_VALUE, _A_CONTAINER = 4, 30  # steps to read one, before anything is asked about it
_BYTES_A_VALUE = 512  # that are compared and counted as fast as one value
_A_DIGIT = 8  # values that a digit of a huge number is worth

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_REAL = re.compile(rb"[0-9]\.|[0-9][eE]")
_HUGE = re.compile(rb"[0-9.]{17,}|[0-9.]+[eE][+-]?[0-9]{2,}")
_OPENING = b"[{"
# Numbers as their shapes: 0 for a digit, e for an exponent, without signs.
_SHAPES = bytes(ord("0" if b in b"0123456789." else "e" if b in b"eE" else " ") for b in range(256))
_HUGE_SHAPES = (b"0" * 17, b"e00")


class Extent(msgspec.Struct, frozen=True):
    """Counts of what a payload holds."""

    size: int  # in bytes
    levels: int
    values: int
    containers: int
    reals: int  # numbers that are not whole
    digits: int  # of huge numbers
    texts: int  # bytes of texts, as far as a schema looks at them

    def work(self, cost: Cost) -> int:
        """An upper bound of the steps of a check."""
        values = self.values + self.size // _BYTES_A_VALUE + _A_DIGIT * self.digits
        return (
            values * cost.by_value
            + self.values * _A_VALUE
            + self.containers * _A_CONTAINER
            + self.reals * cost.by_real
            + self.texts * cost.by_byte
        )


def at_most(text: bytes) -> Extent:
    """Upper bounds, in almost no time."""
    size, containers = len(text), brackets(text)
    shapes = text.translate(_SHAPES, b"+-")
    huge = any(shape in shapes for shape in _HUGE_SHAPES)
    return Extent(
        size=size,
        levels=containers,
        values=text.count(b",") + containers + 1,
        containers=containers,
        reals=size,
        digits=size if huge else 0,
        texts=size,
    )


def extent_of(text: bytes, longest: int | None) -> Extent:
    """Exact counts. Strings count up to the longest that a schema looks at."""
    bare = _STRING.sub(b"", text)
    containers = brackets(bare)
    texts = len(text) - len(bare)
    if longest is not None:  # in characters, which have up to four bytes
        texts = sum(min(len(each), 4 * longest) for each in _STRING.findall(text))
    return Extent(
        size=len(text),
        levels=depth(bare),
        values=bare.count(b",") + containers + 1,
        containers=containers,
        reals=len(_REAL.findall(bare)),
        digits=sum(map(len, _HUGE.findall(bare))),
        texts=texts,
    )


def nests_deeper(text: bytes, levels: int) -> bool:
    """Whether arrays and objects of valid JSON are nested more than this many levels deep."""
    return brackets(text) > levels and depth(text) > levels


def brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def depth(text: bytes) -> int:
    bare = _STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    return max(accumulate([1 if bracket in _OPENING else -1 for bracket in bare]), default=0)
