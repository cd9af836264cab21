"""Cost of a regular expression, in steps of about 20 ns, judged by its text.

The engine takes time in proportion to the text, but also to the pattern: one that may be at many
places of itself at once, like `[ab]*a[ab]{100}c`, is followed through all of them for every byte.
Small patterns, and those that know at every byte where they are, are not.
"""

import re
from typing import NamedTuple

from gnomon.model.remembered import remembered

_SET = 3  # the parts that a set of characters has in UTF-8
_SMALL = 24  # up to here all that it can be at is found once, and kept
_MOST_STRAIGHT = 500
_BYTES_A_STEP = 8
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")  # its text says little about its size
_TOO_LARGE = 1_000_000
_TOKENS = re.compile(
    r"(?P<counted>\{(?P<least>\d+)(?P<more>,(?P<most>\d*))?\})"
    r"|(?P<set>\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\.|\.)"
    r"|(?P<open>\((?:\?[^():]*[:>])?)|(?P<close>\))|(?P<repeated>[*+?])|(?P<other>.)",
    re.DOTALL,
)


class Weight(NamedTuple):
    """Steps for a string, and for each of its bytes."""

    once: int
    by_byte: int


@remembered
def weigh(pattern: str) -> Weight:
    size = size_of(pattern)
    if size <= _MOST_STRAIGHT and _is_straight(pattern):
        return Weight(1 + size // _BYTES_A_STEP, int(pattern.rstrip("$")[-1] in "*+}"))
    return Weight(1, 1 if size <= _SMALL else size)


def size_of(pattern: str) -> int:
    """The size of a pattern with all its repetitions written out."""
    if _VERBOSE.search(pattern):
        return _TOO_LARGE
    groups, last = [0], 0
    for token in _TOKENS.finditer(pattern):
        kind = token.lastgroup
        if kind == "counted":
            times = max(1, int(token["least"]), int(token["most"] or 0))
            more = last * times if token["more"] else last * (times - 1)
            groups[-1] = min(groups[-1] + more, _TOO_LARGE)
            last = min(last * times, _TOO_LARGE)
        elif kind == "open":
            groups.append(0)
        elif kind == "close" and len(groups) > 1:
            last = groups.pop() + 1
            groups[-1] += last
        elif kind != "repeated":
            last = _SET if kind == "set" else 1
            groups[-1] += last
    return min(sum(groups), _TOO_LARGE)


def _is_straight(pattern: str) -> bool:
    """Whether it begins at the beginning and knows at each byte where it is: nothing is optional,
    or repeated as often as it may be, but its end."""
    if not pattern.startswith("^") or pattern == "^":
        return False
    tokens = list(_TOKENS.finditer(pattern.removesuffix("$")))
    return not any(
        (token["other"] == "|") or (_varies(token) and token is not tokens[-1]) for token in tokens
    )


def _varies(token: re.Match[str]) -> bool:
    return token["repeated"] is not None or token["more"] is not None
