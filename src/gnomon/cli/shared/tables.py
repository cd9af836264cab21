"""Lays out tables and lines for a terminal of some width. Pure: text in, lines of text out.

An id is never broken and never cut: where it does not fit, its first characters stand for it, which
every command accepts. Columns that are empty, and then those that matter least, are left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto

import msgspec

GAP = 2  # spaces between columns
# The time to the millisecond, and 12 random bits: few tasks of the same batch have them in common.
SHORT_ID = 18
_JOINTS = "./_-:,@"
LEAST_TEXT = 16  # columns that text needs to be readable
LEAST_NAME = 32  # columns that a name has at the least: most are shorter
_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


class Fit(Enum):
    """What may be done to the texts of a column so that the table fits."""

    ID = auto()  # shortened to its first characters
    NAME = auto()  # wrapped in a terminal, where it is very long; a reader of a pipe wants it whole
    WHOLE = auto()  # nothing: numbers, times, statuses
    TEXT = auto()  # wrapped at words, and cut after some lines


class Column(msgspec.Struct, frozen=True):
    """A column of a table. Of those with a `rank`, the highest is left out first; text is cut
    after `lines`, where that is given."""

    title: str
    fit: Fit = Fit.TEXT
    rank: int = 0
    lines: int | None = None
    least: int = LEAST_TEXT  # columns that its text needs to be readable


class Laid(msgspec.Struct, frozen=True):
    """A table as it is to be printed: the columns that are left, their widths, and for each row
    the lines of its cells."""

    columns: Sequence[Column]
    widths: Sequence[int]
    rows: Sequence[Sequence[Sequence[str]]]


def laid_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, shorten: bool = True
) -> Laid:
    """The table in `width` columns, or in as few more as it needs. Ids and names stay whole unless
    `shorten`."""
    columns = [_with_name(column, shorten=shorten) for column in columns]
    kept = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    cells = [[_flat(row[n], columns[n]) for n in kept] for row in rows]
    left = [columns[n] for n in kept]
    widths = _natural(left, cells)
    if _total(widths) > width and shorten:
        cells = _shortened(left, cells)
        widths = _natural(left, cells)
    while _total(_least(left, widths)) > width and (least := _least_wanted(left)) is not None:
        del left[least], widths[least]
        for row in cells:
            del row[least]
    widths = _fitted(left, widths, width)
    lines = [[_lines(c, w, k) for c, w, k in zip(row, widths, left, strict=True)] for row in cells]
    return Laid(left, widths, lines)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The first characters of each id: all of one length, at least SHORT_ID, that tells apart those
    that are given."""
    distinct = set(ids)
    longest = max(map(len, distinct), default=0)
    for length in range(SHORT_ID, longest):
        cut = {each: each[:length].rstrip("-") for each in distinct}
        if len(set(cut.values())) == len(distinct):
            return cut
    return {each: each for each in distinct}


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words where that is possible;
    an id is shortened before it is broken."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if cell_length(paragraph) <= width:
            lines.append(paragraph)
            continue
        line = ""
        for word in _words(paragraph, width):
            joined = f"{line} {word}" if line else word
            if cell_length(joined) <= width:
                line = joined
                continue
            if line:
                lines.append(line)
            *whole, line = _broken(word, width)
            lines += whole
        lines.append(line)
    return lines


def cut(text: str, width: int) -> str:
    """The text in one line of at most `width` columns, with … where something is left out."""
    if cell_length(text) <= width:
        return text
    while text and cell_length(text) >= width:
        text = text[:-1]
    return f"{text}…"


def cell_length(text: str) -> int:
    """The columns that a text takes up in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _words(paragraph: str, width: int) -> Iterator[str]:
    for word in paragraph.split():
        yield word if cell_length(word) <= width else _ID.sub(lambda id_: id_[0][:SHORT_ID], word)


def _broken(word: str, width: int) -> list[str]:
    """A word in pieces of at most `width` columns, broken after a . or the like where there is one
    in the second half."""
    pieces, piece = [], ""
    for character in word:
        if piece and cell_length(piece) + cell_length(character) > width:
            end = max(piece.rfind(each) for each in _JOINTS) + 1
            end = end if end > len(piece) // 2 else len(piece)
            pieces.append(piece[:end])
            piece = piece[end:]
        piece += character
    return [*pieces, piece]


def _with_name(column: Column, *, shorten: bool) -> Column:
    if column.fit is not Fit.NAME:
        return column
    fit = Fit.TEXT if shorten else Fit.WHOLE
    return msgspec.structs.replace(column, fit=fit, least=LEAST_NAME)


def _flat(text: str, column: Column) -> str:
    return text if column.fit is Fit.TEXT else " ".join(text.split())


def _natural(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max((cell_length(column.title), *(_longest(row[n]) for row in cells)))
        for n, column in enumerate(columns)
    ]


def _longest(text: str) -> int:
    return max(map(cell_length, text.split("\n")))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _least(columns: Sequence[Column], widths: Sequence[int]) -> list[int]:
    """The widths below which the columns cannot be read."""
    return [
        min(width, max(column.least, len(column.title))) if column.fit is Fit.TEXT else width
        for column, width in zip(columns, widths, strict=True)
    ]


def _least_wanted(columns: Sequence[Column]) -> int | None:
    """The place of the column that is left out next."""
    ranked = [(column.rank, place) for place, column in enumerate(columns) if column.rank]
    return max(ranked)[1] if ranked else None


def _shortened(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    places = [n for n, column in enumerate(columns) if column.fit is Fit.ID]
    short = short_ids(row[n] for row in cells for n in places if _ID.fullmatch(row[n]))
    return [
        [short.get(text, text) if n in places else text for n, text in enumerate(row)]
        for row in cells
    ]


def _fitted(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The widths, with what is too much taken from the widest texts."""
    fitted, least = list(widths), _least(columns, widths)
    while _total(fitted) > width:
        room = [(size, n) for n, size in enumerate(fitted) if size > least[n]]
        if not room:
            break
        fitted[max(room)[1]] -= 1
    return fitted


def _lines(text: str, width: int, column: Column) -> list[str]:
    if column.fit is not Fit.TEXT:
        return [text]
    lines = wrapped(text, width)
    if column.lines is None or len(lines) <= column.lines:
        return lines
    kept = lines[: column.lines - 1]
    return [*kept, cut(f"{lines[len(kept)]} …", width)]
