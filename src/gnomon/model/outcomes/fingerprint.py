"""The fingerprint of an error: equal for errors that differ only in their details.

A number of 63 bits: the upper ones tell the task type, the lower ones its normalised error, so that
the fingerprints of one type are neighbours. Stored with every dead letter: a change of what is
replaced here makes new groups for new dead letters, and leaves the others where they are.
"""

import hashlib
import re

from gnomon.model.errors import InvalidTask

READ = 2_000  # characters of an error; no error is stored with more
KEPT = 300  # characters of what is made of it
NO_ERROR = "no error was told"

_TYPE_BITS = 20
_ERROR_BITS = 43
HIGHEST = (1 << _TYPE_BITS + _ERROR_BITS) - 1

# Each part reads forward and takes what it has read or gives up at once: the time is linear. Quotes
# within words are apostrophes. A word is passed over whole, or each of its letters would be tried.
_DETAIL = re.compile(
    r"""
    (?P<kept>\bHTTP[ ]\d{3}\b)
    |(?P<time>(?<!\d)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?
        (?:[ ]?(?:Z|UTC|[+-]\d\d:?\d\d))?)?(?!\d)
        |(?<![\d:])\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?(?![\d:]))
    |(?P<id>(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))
    |(?P<address>(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\d.])
        |\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?
        |(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}(?![\w:])
        |(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}(?![\w:]))
    |(?P<text>(?<!\w)(?:"[^"\n]*+"|'[^'\n]*+'|`[^`\n]*+`)(?!\w)|“[^“”\n]*+”|«[^«»\n]*+»)
    |(?P<hex>\b0[xX][0-9A-Fa-f]++|(?<!\w)(?=[A-Fa-f]{0,39}\d)(?=\d{0,39}[A-Fa-f])[0-9A-Fa-f]{8,}+(?!\w))
    |(?P<n>[+-]?\d++(?:[.,]\d++)*+(?:[eE][+-]?\d++)?)
    |(?P<word>[^\W\d]++)
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def normalised(error: str | None) -> str:
    """The error without what differs from one time to the next: one line, of bounded length."""
    if not error:
        return NO_ERROR
    error = error[:READ]
    parts: list[str] = []
    length = end = 0
    for found in _DETAIL.finditer(error):
        kind = found.lastgroup
        between = error[end : found.start()]
        named = found[0] if kind in ("kept", "word") else f"<{kind}>"
        parts += (between, named)
        end = found.end()
        length += len(named) + len(between) - sum(map(str.isspace, between))
        if length > KEPT:  # without its spaces: more than is kept
            break
    parts.append(error[end:])
    return _SPACE.sub(" ", "".join(parts)).strip()[:KEPT] or NO_ERROR


def fingerprint(task_type: str, error: str | None) -> int:
    """The fingerprint of a task of this type that died of this error."""
    return _hash(task_type, _TYPE_BITS) << _ERROR_BITS | _hash(normalised(error), _ERROR_BITS)


def of_type(task_type: str) -> tuple[int, int]:
    """The lowest and the highest fingerprint that tasks of a type can have. Few others have one of
    these, too."""
    first = _hash(task_type, _TYPE_BITS) << _ERROR_BITS
    return first, first + (1 << _ERROR_BITS) - 1


def written(value: int) -> str:
    """A fingerprint as the API shows it."""
    return f"{value:016x}"


def read(text: str) -> int:
    """Raises InvalidTask, with the place."""
    if not re.fullmatch(r"[0-7][0-9a-f]{15}", text):
        detail = "is no fingerprint: 16 hexadecimal digits, as the groups of dead letters have them"
        raise InvalidTask(detail, "/fingerprint")
    return int(text, 16)


def _hash(text: str, bits: int) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) >> 64 - bits
