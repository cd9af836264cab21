"""The filter of a list as one line of text: `status:READY type:send_email tag:"a b"`."""

import re
from collections.abc import Container
from urllib.parse import quote

import msgspec

from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.model.errors import InvalidTask
from gnomon.model.lifecycle import Status
from gnomon.model.priority import Priority
from gnomon.usecases.checks.validation import explain

FIELDS = {
    "status": "status",
    "type": "task_type",
    "priority": "priority",
    "tag": "tag",
    "queue": "queue",
    "job": "cron_job_id",
    "after": "due_after",
    "before": "due_before",
    "id": "id_prefix",
}
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
                              f"{', '.join(FIELDS)}")  # fmt: skip
        if name not in FIELDS or name in without:
            there = ", ".join(each for each in FIELDS if each not in without)
            raise InvalidTask(f"nothing here is called {name!r}; there are: {there}")
        if name in found:
            raise InvalidTask(f"{name!r} is given twice")
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        found[name] = value.upper() if name in _UPPER else value
    return found


def query_of(tokens: dict[str, str]) -> TaskFilterQuery:
    """The same filter as the API's. Raises InvalidTask."""
    values = {FIELDS[name]: value for name, value in tokens.items()}
    try:
        return msgspec.convert(values, TaskFilterQuery, strict=False)
    except msgspec.ValidationError as error:
        raise explain(error, TaskFilterQuery) from error


def written(tokens: dict[str, str]) -> str:
    """The text of these conditions."""
    return " ".join(f"{name}:{_value(value)}" for name, value in tokens.items())


def chips(tokens: dict[str, str], path: str) -> list[Token]:
    """Each condition, with the address that is left without it."""
    found = []
    for name, value in tokens.items():
        rest = {other: kept for other, kept in tokens.items() if other != name}
        found.append(Token(name, value, f"{path}?q={quote(written(rest))}"))
    return found


def _value(value: str) -> str:
    if value and not re.search(r'[\s"\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
