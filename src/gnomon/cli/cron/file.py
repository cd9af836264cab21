"""The file that declares recurring jobs: read and checked as a whole, before anything is asked.

    set = "billing"

    [defaults]
    timezone = "Europe/Berlin"

    [[job]]
    name = "invoices"
    cron_expression = "0 6 1 * *"
    callback_url = "http://127.0.0.1:9000/invoices"
    renamed_from = "bills"

The fields of a job are those of the API. Next: `sync` compares it with what the server has.
"""

import difflib
import math
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import msgspec

from gnomon.cli.shared.output import CommandFailed
from gnomon.cli.tasks.template import DEFAULT_TYPE
from gnomon.model.errors import InvalidTask

Json = dict[str, Any]

DEFAULT_SET = "default"
SOURCE_PREFIX = "sync:"
LONGEST_SET = 80

_TOP = ("set", "defaults", "job")
# Two ways to say one thing: a job that says it in one way does not want a default of the other.
_INSTEAD = {
    "cron_expression": ("interval_seconds", "interval_from"),
    "interval_seconds": ("cron_expression",),
    "target": ("callback_url", "callback_method"),
    "callback_url": ("target",),
}
_BACKFILL = ("backfill_limit", "backfill_window_seconds")
_DATES = ("start_date", "end_date")
_LARGEST, _SMALLEST = 2**64 - 1, -(2**63)


class BadFile(CommandFailed):
    """A file that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n  ".join(["nothing was changed: the file cannot be used", *problems]))
        self.problems = tuple(problems)


class Declared(msgspec.Struct, frozen=True):
    """A job of the file: its fields for the API, and its former name."""

    name: str
    document: Json
    renamed_from: str | None = None


class Declaration(msgspec.Struct, frozen=True):
    """A set of jobs. Jobs of the same source on the server were declared by this file before."""

    set_name: str
    jobs: tuple[Declared, ...]

    @property
    def source(self) -> str:
        return f"{SOURCE_PREFIX}{self.set_name}"


def declaration(content: bytes, set_name: str | None = None) -> Declaration:
    """The jobs of a file; `set_name` replaces the set that it names. Raises BadFile."""
    try:
        file = tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile([f"it is not valid TOML: {error}"]) from error
    problems = [*_unknown(file, _TOP), *_shape(file)]
    chosen = file.get("set", DEFAULT_SET) if set_name is None else set_name
    problems += _set_problems(chosen)
    defaults = file.get("defaults", {})
    if isinstance(defaults, dict):
        problems += _default_problems(defaults)
    if problems:
        raise BadFile(problems)
    tables = [_merged(defaults, table) for table in file["job"]]
    for number, table in enumerate(tables, 1):
        problems += (f"{_label(table, number)}: {problem}" for problem in _job_problems(table))
    problems += _name_problems(tables)
    if problems:
        raise BadFile(problems)
    source = f"{SOURCE_PREFIX}{chosen}"
    return Declaration(chosen, tuple(_declared(table, source) for table in tables))


def _declared(table: Json, source: str) -> Declared:
    document = {**_document(table), "source": source}
    return Declared(document["name"], document, table.get("renamed_from"))


def _document(table: Json) -> Json:
    """The job as the API takes it."""
    document = {name: value for name, value in table.items() if name != "renamed_from"}
    if "task_type" not in document and not _without_target(document):
        target = document.get("target")
        function = target.get("function") if isinstance(target, dict) else None
        document["task_type"] = function or DEFAULT_TYPE
    return document


def _without_target(table: Json) -> bool:
    """Whether it is for the handler of its task type."""
    return "target" not in table and "callback_url" not in table


def _merged(defaults: Json, table: Json) -> Json:
    """A field of the job takes the place of the default as a whole."""
    dropped = {other for name in table for other in _INSTEAD.get(name, ())}
    if table.get("missed_run_policy", "backfill") != "backfill":
        dropped.update(_BACKFILL)
    kept = {name: value for name, value in defaults.items() if name not in dropped}
    return kept | table


def _shape(file: Json) -> Iterator[str]:
    if "job" not in file:
        # A file that lost its contents on the way must not remove every job of the set.
        yield "it declares no job; write [[job]] tables, or job = [] if none is meant"
    jobs = file.get("job", [])
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        yield "job must be tables: write each under [[job]]"
    if not isinstance(file.get("defaults", {}), dict):
        yield "defaults must be a table: write [defaults]"


def _set_problems(name: object) -> Iterator[str]:
    if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
        yield f'set must be a word such as "billing"; it is {name!r}'
    elif len(name) > LONGEST_SET:
        yield f"set must have at most {LONGEST_SET} characters; it has {len(name)}"


def _default_problems(defaults: Json) -> Iterator[str]:
    for name in ("name", "renamed_from"):
        if name in defaults:
            yield f"[defaults]: {name} belongs to one job; write it under its [[job]]"
    for problem in (*_source_problem(defaults), *_unknown(defaults, _known_fields())):
        yield f"[defaults]: {problem}"


def _job_problems(table: Json) -> Iterator[str]:
    found = [
        *_source_problem(table),
        *_unknown(table, _known_fields()),
        *_rename_problem(table),
        *_value_problems(table, ""),
        *_date_problems(table),
        *_target_problem(table),
    ]
    yield from found or _definition_problem(_document(table))


def _target_problem(table: Json) -> Iterator[str]:
    if "task_type" not in table and _without_target(table):
        yield "say what to call: callback_url, or the task_type whose handler it is for"


def _definition_problem(document: Json) -> Iterator[str]:
    """The problem that the API would report, but for the server's limit on payloads."""
    from gnomon.usecases.checks.validation import explain
    from gnomon.usecases.cron.cron_requests import CreateCronJob
    from gnomon.usecases.cron.definitions import definition_of

    try:
        asked = msgspec.json.decode(msgspec.json.encode(document), type=CreateCronJob)
        definition_of(asked, document["name"], sys.maxsize)
    except msgspec.ValidationError as error:
        yield _worded(explain(error, CreateCronJob))
    except InvalidTask as error:
        yield _worded(error)


def _worded(error: InvalidTask) -> str:
    place = error.pointer[1:].replace("/", ".")
    return f"{place}: {error.detail}" if place else error.detail


def _name_problems(tables: Sequence[Json]) -> Iterator[str]:
    """Names are what a job is known by from one sync to the next, so each must mean one job."""
    names = Counter(table["name"] for table in tables if isinstance(table.get("name"), str))
    olds = Counter(old for table in tables if isinstance(old := table.get("renamed_from"), str))
    for name, count in names.items():
        if count > 1:
            yield f"{name!r} is declared {count} times; give each job a name of its own"
    for old, count in olds.items():
        if count > 1:
            yield f"{count} jobs are renamed_from {old!r}; it can become only one of them"
        if old in names:
            # Chains and loops too: after the first sync nobody could tell what was renamed.
            yield (
                f"renamed_from {old!r} names a job that the file still declares; "
                "rename first, and use the old name again in a later sync"
            )


def _rename_problem(table: Json) -> Iterator[str]:
    old = table.get("renamed_from")
    if old is not None and (not isinstance(old, str) or not old):
        yield f"renamed_from must be the job's former name; it is {old!r}"


def _source_problem(table: Json) -> Iterator[str]:
    if "source" in table:
        yield "source is made of the file's set; leave it out, and write set at the top"


def _value_problems(value: Any, place: str) -> Iterator[str]:
    """TOML has numbers that JSON has not."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from _value_problems(inner, f"{place}.{name}" if place else name)
        case list():
            for index, inner in enumerate(value):
                yield from _value_problems(inner, f"{place}.{index}")
        case float() if not math.isfinite(value):
            yield f"{place}: {value} is not a number in JSON; write it as a string"
        case int() if not _SMALLEST <= value <= _LARGEST:
            yield f"{place}: {value} does not fit into 64 bits; write it as a string"


def _date_problems(table: Json) -> Iterator[str]:
    for name in _DATES:
        value = table.get(name)
        bare = isinstance(value, date | time) and not isinstance(value, datetime)
        if bare or (isinstance(value, datetime) and value.tzinfo is None):
            yield f"{name}: {value} has no zone; write it like 2030-01-31T09:00:00Z"


def _unknown(table: Mapping[str, Any], known: Sequence[str]) -> Iterator[str]:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            yield f"unknown field {name!r}; {hint}"


def _known_fields() -> tuple[str, ...]:
    from gnomon.usecases.cron.cron_requests import CreateCronJob

    names = (field.encode_name for field in msgspec.structs.fields(CreateCronJob))
    return (*(name for name in names if name != "source"), "renamed_from", "source")


def _label(table: Json, number: int) -> str:
    name = table.get("name")
    return f"job {name!r}" if isinstance(name, str) else f"job number {number}"
