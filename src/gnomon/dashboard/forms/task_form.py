"""The form that submits a task: its fields, and the body of the API that they become.

The body is checked as every submission is; `field_of` says beside which field an error belongs.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gnomon.dashboard.forms.local_time import moment_of
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.by_url import document_of
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.task import Task
from gnomon.usecases.checks.validation import position

Form = Mapping[str, str]

UNITS = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}
BLANK = {
    "task_type": "", "name": "", "target": "handler", "function": "", "url": "", "method": "POST",
    "headers": "", "payload": "", "when": "now", "delay": "", "delay_unit": "minutes", "at": "",
    "zone": "UTC", "jitter_seconds": "", "priority": "", "queue": "", "tags": "",
    "max_retries": "", "backoff": "", "base_seconds": "", "max_seconds": "", "jitter": "",
    "retry_client_errors": "", "timeout_seconds": "", "delivery": "", "expires_at": "",
    "preemptible": "", "keep_payload": "", "sla_seconds": "", "warn_after_seconds": "",
    "idempotency_key": "", "correlation_id": "", "form_key": "", "from": "",
}  # fmt: skip
_RETRIES = (
    "max_retries", "backoff", "base_seconds", "max_seconds", "jitter", "retry_client_errors",
)  # fmt: skip
_LEVELS = ("sla_seconds", "warn_after_seconds")
# Folded away until one of them is used.
ADVANCED = (
    "name", "function", *_RETRIES, "timeout_seconds", "delivery", "expires_at", "jitter_seconds",
    "preemptible", "keep_payload", *_LEVELS, "idempotency_key", "correlation_id",
)  # fmt: skip
_HIGHEST = 1e15  # seconds; more than all that the API takes, and finite in every unit
_TRUTH = {"yes": True, "no": False}
_PLACES = {
    "execute_at": "at",
    "delay_seconds": "delay",
    "callback_url": "url",
    "callback_method": "method",
}
# Hidden characters of JSON can only be within strings, where an escape means the same.
_HIDDEN = re.compile("[\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]")


def filled(form: Form) -> dict[str, str]:
    """Every field of the form: as typed, else blank. Others are left out."""
    return {name: form.get(name, blank) for name, blank in BLANK.items()}


def body_of(form: Form) -> bytes:
    """The body of the API for what was typed. Raises InvalidTask, with the place."""
    body: dict[str, Any] = {"task_type": form["task_type"].strip()}
    body |= _text(form, "name", "queue", "priority", "delivery", "keep_payload", "correlation_id")
    body |= _target(form) | _time(form)
    body |= _numbers(form, ("timeout_seconds", "jitter_seconds", *_LEVELS))
    if payload := form["payload"].strip():
        body["payload"] = _json(payload)
    if tags := _lines(form["tags"]):
        body["tags"] = tags
    if policy := _policy(form):
        body["retry_policy"] = policy
    if form["preemptible"]:
        body["preemptible"] = _truth(form, "preemptible")
    if form["from"]:
        body["retry_of"] = form["from"]
    body["idempotency_key"] = form["idempotency_key"].strip() or form["form_key"]
    return msgspec.json.encode(body)


def _text(form: Form, *names: str) -> dict[str, str]:
    return {name: text for name in names if (text := form[name].strip())}


def _target(form: Form) -> dict[str, Any]:
    if form["target"] != "webhook":
        function = form["function"].strip()
        return {"target": {"type": "python", "function": function}} if function else {}
    if not (url := form["url"].strip()):
        raise InvalidTask("is missing; write one as https://example.com/hook", "/target/url")
    method = form["method"].strip() or None
    return {"target": document_of(url, method, _headers(form["headers"]))}


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _lines(text):
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidTask(
                f"{line[:50]!r} has no colon; write a header a line, as Name: value",
                "/target/headers",
            )
        found[name.strip()] = value.strip()
    return found


def _time(form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {}
    match form["when"]:
        case "after":
            if not form["delay"].strip():
                raise InvalidTask("is missing; write a number, as 10", "/delay_seconds")
            unit = UNITS.get(form["delay_unit"], 1)
            found["delay_seconds"] = _number(form["delay"], "/delay_seconds") * unit
        case "at":
            found["execute_at"] = moment_of(form["at"], form["zone"], "/execute_at")
    if form["expires_at"].strip():
        found["expires_at"] = moment_of(form["expires_at"], form["zone"], "/expires_at")
    return found


def _numbers(form: Form, names: tuple[str, ...], within: str = "") -> dict[str, float]:
    return {
        name: _number(text, f"{within}/{name}") for name in names if (text := form[name].strip())
    }


def _number(text: str, pointer: str) -> float:
    for kind in (int, float):
        try:
            number = kind(text.strip())
        except ValueError:
            continue
        if abs(number) <= _HIGHEST:
            return number
    raise InvalidTask(f"{text[:30]!r} is no number; write one as 10 or 0.5", pointer)


def _policy(form: Form) -> dict[str, Any]:
    at = "/retry_policy"
    policy: dict[str, Any] = _numbers(form, ("max_retries", "base_seconds", "max_seconds"), at)
    policy |= _text(form, "backoff")
    for name in ("jitter", "retry_client_errors"):
        if form[name]:
            policy[name] = _truth(form, name, at)
    return policy


def _truth(form: Form, name: str, within: str = "") -> bool:
    if form[name] not in _TRUTH:
        raise InvalidTask("must be yes, no or left out", f"{within}/{name}")
    return _TRUTH[form[name]]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def _json(text: str) -> msgspec.Raw:
    """The text itself, once it is one JSON value. Raises InvalidTask, with the place."""
    content = text.replace("\r\n", "\n").encode()
    try:
        return msgspec.json.decode(content, type=msgspec.Raw).copy()
    except msgspec.DecodeError as error:
        raise InvalidTask(f"is not JSON: {position(error, content)}", "/payload") from error
    except RecursionError as error:
        raise InvalidTask("is nested too deeply", "/payload") from error


def field_of(pointer: str) -> str:
    """The field that a JSON pointer of the body belongs to; empty where there is none."""
    steps = pointer.split("/")[1:]
    if steps[:1] in (["target"], ["retry_policy"]) and len(steps) > 1:
        steps = steps[1:]
    name = _PLACES.get(steps[0], steps[0]) if steps else ""
    return name if name in BLANK else ""


def of_task(task: Task) -> dict[str, str]:
    """The form that would submit such a task again, now. Secrets are masked."""
    form = dict(BLANK) | {
        "from": str(task.task_id),
        "task_type": task.task_type,
        "name": task.name or "",
        "payload": "" if task.payload is None else _visible(task.payload.decode()),
        "priority": task.priority.name,
        "queue": task.queue or "",
        "tags": "\n".join(task.tags),
        "timeout_seconds": _shortest(task.timeout_seconds),
        "delivery": task.delivery,
        "keep_payload": task.keep_payload,
        "preemptible": "yes" if task.preemptible else "no",
        **{name: _shortest(seconds) for name in _LEVELS if (seconds := getattr(task, name))},
    }
    policy = task.retry_policy
    form |= {
        "max_retries": str(policy.max_retries),
        "backoff": policy.backoff,
        "base_seconds": _shortest(policy.base_seconds),
        "max_seconds": _shortest(policy.max_seconds),
        "jitter": "yes" if policy.jitter else "no",
        "retry_client_errors": "yes" if policy.retry_client_errors else "no",
    }
    match task.target.masked():
        case HttpTarget(url=url, method=method, headers=headers):
            shown = "\n".join(f"{name}: {value}" for name, value in headers.items())
            form |= {"target": "webhook", "url": url, "method": method, "headers": shown}
        case GrpcTarget(url=url, headers=headers) | QueueTarget(url=url, headers=headers):
            shown = "\n".join(f"{name}: {value}" for name, value in headers.items())
            form |= {"target": "webhook", "url": url, "headers": shown}
        case PythonTarget(function=function) if function != task.task_type:
            form["function"] = function
    return form


def prefilled(query: Form) -> dict[str, str]:
    """A form from the parameters of its address: a type, a moment of its day."""
    return filled({name: value for name, value in query.items() if name != "form_key"})


def folded(form: Form, wrong: Mapping[str, object]) -> bool:
    """Whether the advanced fields are out of sight."""
    return not any(form[name] or name in wrong for name in ADVANCED)


def _visible(text: str) -> str:
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _shortest(number: float) -> str:
    return f"{number:.6g}"
