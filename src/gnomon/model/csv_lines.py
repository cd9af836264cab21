"""Lines of CSV that a spreadsheet takes for what they are."""

import csv
import io
from collections.abc import Iterable, Sequence

# What begins so is a formula to a spreadsheet, and a formula can send what it stands beside.
_FORMULAS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with its header. Text that would be a formula gets an apostrophe before it; None is
    empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(value) for value in row] for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return "" if value is None else value
    one_way = value.replace("\r", "\n")  # a bare carriage return would not be quoted
    return f"'{one_way}" if one_way.lstrip(" ").startswith(_FORMULAS) else one_way
