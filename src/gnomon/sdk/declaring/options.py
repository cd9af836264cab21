"""Options of a handler: checked when it is declared, in the words that people write."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec

from gnomon.client.types.administration import TypeDefaultsSpec
from gnomon.model.duration import Duration, seconds_of
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import (
    LEAST_TIMEOUT,
    DeliveryMode,
    KeepPayload,
    check_mode,
)
from gnomon.sdk.errors import InvalidHandler

LONGEST_TIMEOUT = 24 * 3600.0
LONGEST_EXPIRY = 175 * 365.25 * 24 * 3600.0
LONGEST_JITTER = 24 * 3600.0
MOST_QUEUE_CHARACTERS = 100
MOST_TAG_CHARACTERS = 100
MOST_TAGS = 32

PriorityName = Literal["critical", "high", "medium", "low", "CRITICAL", "HIGH", "MEDIUM", "LOW"]
DeliveryName = Literal["at_least_once", "at_most_once", "exactly_once"]
KeepPayloadName = Literal["always", "failed", "never"]

_E = TypeVar("_E", bound=StrEnum)
_Queue = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_QUEUE_CHARACTERS)]
_Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_TAG_CHARACTERS)]
_Tags = Annotated[tuple[_Tag, ...], msgspec.Meta(max_length=MOST_TAGS)]


class TaskFields(TypedDict, total=False):
    """The options that tasks of a handler start with; cron jobs can have others."""

    retries: int | RetryPolicy
    timeout: Duration
    priority: Priority | PriorityName
    queue: str
    jitter: Duration
    delivery: DeliveryMode | DeliveryName
    tags: Sequence[str]
    preemptible: bool
    keep_payload: KeepPayload | KeepPayloadName
    sla: Duration
    warn_after: Duration


class TaskOptions(TaskFields, total=False):
    """The options of `@app.task`."""

    name: str
    aliases: Sequence[str]
    process: bool
    transactional: bool
    expiry: Duration
    log_transitions: bool


class TaskDefaults(TypeDefaultsSpec, kw_only=True):
    """The defaults of a handler's task type, as its options say. None: those of the server."""

    def said(self) -> dict[str, Any]:
        """The fields that are not left to the server."""
        values = zip(self.__struct_fields__, msgspec.structs.astuple(self), strict=True)
        return {
            name: value
            for name, value in values
            if value is not None and value is not False and value != ()
        }


def task_defaults(handler: str, options: Mapping[str, Any]) -> TaskDefaults:
    """What the options say. Raises InvalidHandler, which names the option."""
    try:
        defaults = TaskDefaults(**read_fields(options))
    except ValueError as error:
        raise InvalidHandler(f"{handler}: {error}") from None
    check_delivery(handler, defaults)
    return defaults


def read_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a task that options set. Raises ValueError, which names the option."""
    fields: dict[str, Any] = {}
    for option, value in options.items():
        if option in _READERS:
            field, read = _READERS[option]
            try:
                fields[field] = read(value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{option}={value!r}: {error}") from None
    return fields


def check_options(handler: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raises InvalidHandler where there is no such option."""
    try:
        check_known(options, known)
    except ValueError as error:
        raise InvalidHandler(f"{handler}: {error}") from None


def check_known(options: Iterable[str], known: Sequence[str]) -> None:
    """Raises ValueError where there is no such option, with one that there is."""
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]}=?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"there is no option {option}=; {hint}")


def checked_name(name: Any) -> str:
    """A name of a handler, if a task type can have it. Raises InvalidHandler."""
    try:
        PythonTarget(_text(name)).check()
    except (ValueError, TypeError) as error:
        detail = str(error).removeprefix("function ")
        raise InvalidHandler(f"a handler cannot be called {name!r}: it {detail}") from None
    return str(name)


def checked_names(handler: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidHandler(f'{handler}: aliases={names!r}: give a list of names, like ["old"]')
    return tuple(checked_name(name) for name in names)


def read_choice(kind: type[_E]) -> Callable[[Any], _E]:
    """Reads a member of `kind`, or its name in any case."""
    by_word = {member.value.lower(): member for member in kind}

    def read(value: Any) -> _E:
        found = by_word.get(str(value).lower())
        if found is None:
            words = ", ".join(repr(word) for word in by_word)
            raise ValueError(f"must be one of {words}")
        return found

    return read


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be True or False")
    return value


def read_duration(least: float, most: float) -> Callable[[Any], float]:
    """Reads a duration between these seconds."""

    def read(value: Any) -> float:
        seconds = seconds_of(value)
        if not least <= seconds <= most:
            raise ValueError(f"must be between {least:g} s and {most:g} s")
        return seconds

    return read


def _retries(value: Any) -> RetryPolicy:
    if isinstance(value, int) and not isinstance(value, bool):
        value = RetryPolicy(max_retries=value)
    if not isinstance(value, RetryPolicy):
        raise TypeError("must be how often to try again, or a RetryPolicy")
    # A Struct checks its fields only when it is read.
    return msgspec.convert(msgspec.to_builtins(value), RetryPolicy)


def _queue(value: Any) -> str:
    read: str = msgspec.convert(value, _Queue)
    return read


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError('must be a list, like ["billing"]')
    read: tuple[str, ...] = msgspec.convert(list(value), _Tags)
    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a text")
    return value


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "retries": ("retry_policy", _retries),
    "timeout": ("timeout_seconds", read_duration(LEAST_TIMEOUT, LONGEST_TIMEOUT)),
    "expiry": ("expires_after_seconds", read_duration(LEAST_TIMEOUT, LONGEST_EXPIRY)),
    "priority": ("priority", read_choice(Priority)),
    "queue": ("queue", _queue),
    "jitter": ("jitter_seconds", read_duration(0, LONGEST_JITTER)),
    "delivery": ("delivery", read_choice(DeliveryMode)),
    "tags": ("tags", _tags),
    "preemptible": ("preemptible", read_flag),
    "keep_payload": ("keep_payload", read_choice(KeepPayload)),
    "sla": ("sla_seconds", read_duration(LEAST_TIMEOUT, LONGEST_EXPIRY)),
    "warn_after": ("warn_after_seconds", read_duration(LEAST_TIMEOUT, LONGEST_TIMEOUT)),
    "log_transitions": ("log_transitions", read_flag),
}
TASK_FIELDS = tuple(TaskFields.__annotations__)
TASK_OPTIONS = tuple(TaskOptions.__annotations__)


def check_delivery(handler: str, defaults: TaskDefaults) -> None:
    """Raises InvalidHandler where the delivery mode forbids another field."""
    mode = defaults.delivery or DeliveryMode.AT_LEAST_ONCE
    try:
        check_mode(mode, defaults.retry_policy, preemptible=defaults.preemptible)
    except InvalidTask as error:
        option = "retries" if "retry" in error.pointer else "preemptible"
        raise InvalidHandler(f"{handler}: {option}: {error.detail}") from None
