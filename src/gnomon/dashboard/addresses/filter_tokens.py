"""The filter of a list as one line of text: `status:READY type:send_email tag:"a b"`."""

import re
from collections.abc import Container
from datetime import datetime
from itertools import takewhile
from typing import TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from gnomon.api.tasks.schemas import DeadLetterFilter
from gnomon.model.errors import InvalidTask
from gnomon.model.outcomes import fingerprint
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane, Priority
from gnomon.store.ports.work.bulk import BulkFilter
from gnomon.usecases.checks.validation import of_texts

_Query = TypeVar("_Query", bound=DeadLetterFilter)

FIELDS = {
    "status": "status",
    "type": "task_type",
    "priority": "priority",
    "tag": "tag",
    "queue": "queue",
    "job": "cron_job_id",
    "batch": "batch_id",
    "after": "due_after",
    "before": "due_before",
    "id": "id_prefix",
    "error": "error",
    "fingerprint": "fingerprint",
}
OF_BULK = ("error", "fingerprint")  # conditions that lists do not have, only bulk operations
COMPLETIONS = (
    *(f"status:{status}" for status in Status),
    *(f"priority:{priority}" for priority in Priority),
    *(f"{name}:" for name in FIELDS if name not in ("status", "priority")),
)
MOST_CHARACTERS = 2_000
_TOKEN = re.compile(r'\s*(\w+):(?:"((?:[^"\\]|\\.)*)"|(\S+))(?=\s|$)|\s*(\S+)')
_UPPER = ("status", "priority")


class Token(msgspec.Struct, frozen=True):
    """One condition, and the address of the list without it."""

    name: str
    value: str
    rest: str


def parsed(text: str, without: Container[str] = ()) -> dict[str, str]:
    """The values by the names of tokens. Raises InvalidTask."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidTask(f"the filter is longer than {MOST_CHARACTERS} characters")
    found: dict[str, str] = {}
    for name, quoted, plain, other in _TOKEN.findall(text):
        if other:
            raise InvalidTask(f"{other!r} is no condition; write one as type:send_email, of these: "
                              f"{_names(without)}")  # fmt: skip
        if name not in FIELDS or name in without:
            raise InvalidTask(f"nothing here is called {name!r}; there are: {_names(without)}")
        if name in found:
            raise InvalidTask(f"{name!r} is given twice")
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        found[name] = value.upper() if name in _UPPER else value
    return found


def _names(without: Container[str]) -> str:
    return ", ".join(name for name in FIELDS if name not in without)


def query_of(tokens: dict[str, str], kind: type[_Query]) -> _Query:
    """The same filter as the API's. Raises InvalidTask."""
    return of_texts({FIELDS[name]: value for name, value in tokens.items()}, kind)


def tokens_of(chosen: BulkFilter) -> dict[str, str]:
    """The conditions of a filter that is kept."""
    values = {
        "status": chosen.status,
        "type": chosen.task_type,
        "priority": chosen.priority,
        "tag": chosen.tag,
        "queue": chosen.queue,
        "job": chosen.cron_job_id,
        "batch": chosen.batch_id,
        "after": chosen.due_after,
        "before": chosen.due_before,
        "id": None if chosen.ids is None else _common(*chosen.ids),
        "error": chosen.error,
        "fingerprint": None
        if chosen.fingerprint is None
        else fingerprint.written(chosen.fingerprint),
    }
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: object) -> str:
    match value:
        case Lane():
            return value.name
        case datetime():
            return value.isoformat()
    return str(value)


def _common(first: UUID, last: UUID) -> str:
    """The beginning that all ids of a range share."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(str(first), str(last), strict=True))
    return "".join(each for each, _ in pairs)


def written(tokens: dict[str, str]) -> str:
    """The text of these conditions."""
    return " ".join(f"{name}:{_value(value)}" for name, value in tokens.items())


def of_filter(kept: bytes) -> dict[str, str]:
    """The conditions of a filter of the API. Raises InvalidTask."""
    try:
        found = msgspec.json.decode(kept, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InvalidTask(f"this is no filter: {error}") from error
    names = {field: name for name, field in FIELDS.items()}
    if not found.keys() <= names.keys():
        raise InvalidTask(f"unknown conditions: {', '.join(found.keys() - names.keys())}")
    return ordered({names[field]: value for field, value in found.items()})


def ordered(tokens: dict[str, str]) -> dict[str, str]:
    """The conditions in the order in which they are offered: equal filters have equal texts."""
    return {name: tokens[name] for name in FIELDS if name in tokens}


def chips(tokens: dict[str, str], path: str, also: str = "") -> list[Token]:
    """Each condition, with the address that is left without it; `also` is the rest of its query."""
    found = []
    for name, value in tokens.items():
        rest = {other: kept for other, kept in tokens.items() if other != name}
        found.append(Token(name, value, f"{path}?q={quote(written(rest))}{also}"))
    return found


def _value(value: str) -> str:
    if value and not re.search(r'[\s"\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
