"""The task template in a request, with every default filled in and every value checked."""

from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from gnomon.model.errors import InvalidTask, PayloadTooLarge
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TEMPLATE_FIELDS, TaskTemplate
from gnomon.model.tasks.type_defaults import TypeDefaults
from gnomon.model.text import is_line
from gnomon.usecases.checks.text_check import check_line
from gnomon.usecases.tasks.task_requests import TemplateBody, TemplatePatch

UNSET = msgspec.UNSET

_NULL = b"null"
_T = TypeVar("_T")
# The fields of a template that a request may leave out.
_OPTIONAL = tuple(name for name in TEMPLATE_FIELDS if name not in ("task_type", "target"))
_asked_of = attrgetter(*_OPTIONAL)
_NONE_ASKED = (UNSET,) * len(_OPTIONAL)
_BUILT_IN = {each.name: each.default for each in msgspec.structs.fields(TaskTemplate)}


def template_of(asked: TemplateBody, defaults: TypeDefaults) -> dict[str, Any]:
    """The fields of a TaskTemplate by name; one that is missing has its default. Raises
    InvalidTask, with the place."""
    fields: dict[str, Any] = {"task_type": asked.task_type, "target": called_of(asked)}
    if _asked_of(asked) == _NONE_ASKED:  # as most requests are
        fields.update(_left_out(defaults))
    else:
        fields.update(_filled_in(asked, defaults))
    return fields


@lru_cache(1024)
def _left_out(defaults: TypeDefaults) -> dict[str, Any]:
    """The fields of a request that has none of them, where they are not as built in."""
    fields = _filled_in(TemplateBody(task_type=""), defaults)
    return {name: value for name, value in fields.items() if value != _BUILT_IN[name]}


def _filled_in(asked: TemplateBody, defaults: TypeDefaults) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in _OPTIONAL:
        value = getattr(asked, name)
        fields[name] = getattr(defaults, name) if value is UNSET else value
    fields["priority"] = Lane[fields["priority"]]
    fields["tags"] = _distinct(fields["tags"])
    if asked.retry_policy is UNSET:
        fields["retry_policy"] = defaults.retry_policy_for(fields["delivery"])
    if fields["preemptible"] and asked.preemptible is UNSET:
        fields["preemptible"] = defaults.preemptible_for(fields["delivery"])
    return fields


def changed_template(asked: TemplatePatch) -> dict[str, Any]:
    """The fields of a TaskTemplate that a request changes. Raises InvalidTask, with the place."""
    changes = {
        name: value
        for name in TEMPLATE_FIELDS
        if (value := getattr(asked, name, UNSET)) is not UNSET
    }
    named: Target | None = None if asked.target is UNSET else asked.target
    target = target_of(named, given(asked.callback_url), given(asked.callback_method))
    if target is not None:
        changes["target"] = target
    if asked.priority is not UNSET:
        changes["priority"] = Lane[asked.priority]
    if asked.tags is not UNSET:
        changes["tags"] = _distinct(asked.tags)
    return changes


def called_of(asked: TemplateBody) -> Target:
    """The target of a request; the handler of the task type where it names none. Raises
    InvalidTask, with the place."""
    target = target_of(asked.target, asked.callback_url, asked.callback_method)
    return handler_of(asked.task_type) if target is None else target


def handler_of(task_type: str) -> PythonTarget:
    """The handler of a task type. Raises InvalidTask, with the place."""
    handler = PythonTarget(task_type)
    try:
        handler.check()
    except ValueError as error:
        detail = f"cannot name a handler, and the request has no target: {error}"
        raise InvalidTask(detail, "/task_type") from error
    return handler


def target_of(target: Target | None, url: str | None, method: str | None) -> Target | None:
    """The target, given in full or as a callback. Raises InvalidTask, with the place."""
    if target is not None and (url is not None or method is not None):
        raise InvalidTask("give target or callback_url, not both", "/target")
    if url is None:
        if method is not None:
            raise InvalidTask("callback_method needs a callback_url", "/callback_method")
        return target
    short = HttpTarget(url) if method is None else HttpTarget(url, method)
    try:
        short.check()
    except ValueError as error:
        field = "callback_method" if str(error).startswith("method") else "callback_url"
        raise InvalidTask(str(error), f"/{field}") from error
    return short


def payload_of(
    raw: msgspec.Raw | msgspec.UnsetType, most_bytes: int, pointer: str = "/payload"
) -> bytes | None:
    """The JSON as it was written; None for null. Raises PayloadTooLarge, InvalidTask."""
    payload = _NULL if raw is UNSET else bytes(raw)
    if len(payload) > most_bytes:
        detail = f"is {len(payload)} bytes; at most {most_bytes} are kept. Send a reference instead"
        raise PayloadTooLarge(detail, pointer)
    try:
        payload.decode()  # msgspec does not look into raw JSON
    except UnicodeDecodeError as error:
        raise InvalidTask("is not UTF-8", pointer) from error
    return None if payload == _NULL else payload


def check_text(asked: TemplateBody | TemplatePatch) -> None:
    """Raises InvalidTask, with the place, for text and targets that cannot be used."""
    for name, pointer in _lines(type(asked)):
        text = getattr(asked, name)
        if text:  # neither left out, nor null, nor empty
            check_line(text, pointer)
    check_tags(asked.tags)
    target = asked.target
    if target is not None and target is not UNSET:
        try:
            target.check()
        except ValueError as error:
            # Its first word is the field, "header" where it is one of them.
            field = str(error).partition(" ")[0].replace("header", "headers")
            raise InvalidTask(str(error), f"/target/{field}") from error


def check_tags(tags: tuple[str, ...] | msgspec.UnsetType) -> None:
    """Raises InvalidTask, with the place."""
    if tags and not all(map(is_line, tags)):
        for index, tag in enumerate(tags):
            check_line(tag, f"/tags/{index}")


@cache
def _lines(kind: type[TemplateBody | TemplatePatch]) -> tuple[tuple[str, str], ...]:
    """The fields that are one line of text, each with its JSON pointer."""
    names = ("task_type", "name", "queue", "source")
    return tuple((name, f"/{name}") for name in names if name in kind.__struct_fields__)


def _distinct(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tags if len(tags) < 2 else tuple(dict.fromkeys(tags))


def given(value: _T | msgspec.UnsetType) -> _T | None:
    return None if value is UNSET else value
