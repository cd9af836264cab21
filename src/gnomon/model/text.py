"""Characters that are allowed in names, notes and the values of headers."""

import re

# Controls of ASCII and of Latin-1, and what Unicode takes for the end of a line: they can rewrite
# the terminal, the log or the message that they are printed to.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_IN_NOTES = str.maketrans("", "", "\t\r\n")


def is_line(text: str) -> bool:
    """Whether it is one line without control characters."""
    # Printable text has none, and is told three times as fast.
    return text.isprintable() or _CONTROL.search(text) is None


def is_note(text: str) -> bool:
    """The same for text of several lines."""
    return is_line(text.translate(_IN_NOTES))


def storable(text: str) -> str:
    """As PostgreSQL can hold it: its text has no NUL and no halves of surrogate pairs, which is how
    Python writes bytes that are not UTF-8."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
