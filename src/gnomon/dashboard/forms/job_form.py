"""The form of a recurring job: its fields as text, and the request that they make.

What was typed is kept as it is, so that a refused form comes back whole.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gnomon.api.cron.schemas import CronJobView
from gnomon.api.http.requests.reading import decoded
from gnomon.model.errors import InvalidTask, Mistake
from gnomon.model.targets.by_url import document_of, kind_of
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.usecases.checks.validation import position
from gnomon.usecases.cron.cron_requests import PreviewSchedule

Form = Mapping[str, str]

# As a new job is shown; a field that is not here is empty.
BLANK: Form = {
    "kind": "cron",
    "cron_expression": "0 9 * * MON-FRI",
    "timezone": "UTC",
    "gap": "fire_after",
    "fold": "first",
    "overlap_policy": "skip",
    "missed_run_policy": "fire_once",
    "missed_after_seconds": "10",
    "jitter_seconds": "0",
    "target_kind": "http",
    "callback_method": "POST",
    "preemptible": "",
}
_LEVELS = ("sla_seconds", "warn_after_seconds")
_POLICY = ("max_retries", "backoff", "base_seconds", "max_seconds")


class FormMistakes(InvalidTask):
    """Several fields that cannot be read."""

    def __init__(self, found: list[Mistake]) -> None:
        super().__init__(found[0].detail, found[0].pointer)
        self._found = tuple(found)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        return self._found


def form_of(job: CronJobView) -> Form:
    """The form as it shows a job."""
    policy = job.retry_policy
    return {
        **{name: _text(getattr(job, name)) for name in (*_TEXTS, *_NUMBERS, *_CHOSEN)},
        "kind": "interval" if job.interval_seconds is not None else "cron",
        "gap": str(job.dst.gap),
        "fold": str(job.dst.fold),
        "start_date": _moment_text(job.start_date),
        "end_date": _moment_text(job.end_date),
        "tags": "\n".join(job.tags),
        "preemptible": "yes" if job.preemptible else "",
        "payload_template": _json_text(bytes(job.payload_template)),
        **{name: _text(getattr(policy, name)) for name in _POLICY},
        **_target_text(job),
    }


def _target_text(job: CronJobView) -> Form:
    target = job.target
    found = {"callback_method": "POST", "target": msgspec.json.encode(target).decode()}
    if isinstance(target, HttpTarget) and not target.headers:
        return found | {
            "target_kind": "http",
            "callback_url": target.url,
            "callback_method": target.method,
        }
    if isinstance(target, GrpcTarget | QueueTarget) and target == type(target)(target.url):
        return found | {"target_kind": "http", "callback_url": target.url}
    if target == PythonTarget(job.task_type):
        return found | {"target_kind": "handler"}
    return found | {"target_kind": "json"}


def request_of(form: Form, stored: CronJobView | None = None) -> dict[str, Any]:
    """The body of the request that the form describes, for the API's types to check. Raises
    FormMistakes. `stored` is the job that is edited: what a form has no field for stays so."""
    reading = _FieldReader(form)
    body: dict[str, Any] = {
        name: form.get(name, "").strip() for name in ("name", "task_type", "timezone")
    }
    body |= {"cron_expression": None, "interval_seconds": None, "interval_from": None}
    if form.get("kind") == "interval":
        body["interval_seconds"] = reading.take("interval_seconds", _number)
        body["interval_from"] = form.get("interval_from", "").strip() or None
    else:
        body["cron_expression"] = form.get("cron_expression", "").strip()
    body["dst"] = {name: form.get(name, BLANK[name]) for name in ("gap", "fold")}
    body["queue"] = form.get("queue", "").strip() or None
    for name in ("max_runs", "backfill_limit", "backfill_window_seconds"):
        body[name] = reading.take(name, _number)
    for name in _LEVELS:
        if (number := reading.take(name, _number)) is not None or stored is not None:
            body[name] = number
    for name in ("start_date", "end_date"):
        body[name] = reading.take(name, _moment)
    for name in ("missed_after_seconds", "jitter_seconds", "timeout_seconds"):
        if (number := reading.take(name, _number)) is not None:
            body[name] = number
    body |= {name: form[name] for name in _CHOSEN if form.get(name)}
    body["tags"] = [line.strip() for line in form.get("tags", "").splitlines() if line.strip()]
    if stored is not None or form.get("preemptible"):
        body["preemptible"] = bool(form.get("preemptible"))
    body |= _policy(form, reading, stored)
    if (payload := reading.take("payload_template", _json)) is not None or stored is not None:
        body["payload_template"] = payload
    body |= _target(form, reading)
    if reading.mistakes:
        raise FormMistakes(reading.mistakes)
    return body


def changes_of(form: Form, stored: CronJobView) -> dict[str, Any]:
    """What the form changes of a stored job. Raises FormMistakes."""
    before, after = request_of(form_of(stored), stored), request_of(form, stored)
    target = {"callback_url", "callback_method", "target"}
    changed = {
        name: value
        for name, value in after.items()
        if name not in target and _encoded(value) != _encoded(before.get(name))
    }
    if {name: after.get(name) for name in target} != {name: before.get(name) for name in target}:
        changed |= {name: after[name] for name in target if name in after}
        if not target & after.keys():  # the handler of the type, which a PATCH has to name
            changed["target"] = {"type": "python", "function": after["task_type"]}
    if "cron_expression" in changed or "interval_seconds" in changed:
        # One of the two removes the other, and a null beside it would be a second schedule.
        for name in ("cron_expression", "interval_seconds"):
            if name in changed and changed[name] is None:
                del changed[name]
    return changed


def schedule_request(form: Form, job_id: str | None) -> PreviewSchedule:
    """The part of the form that says when it fires. Raises InvalidTask."""
    reading = _FieldReader(form)
    body: dict[str, Any] = {"timezone": form.get("timezone", "").strip(), "cron_job_id": job_id}
    if form.get("kind") == "interval":
        body["interval_seconds"] = reading.take("interval_seconds", _number)
        body["interval_from"] = form.get("interval_from", "").strip() or None
    else:
        body["cron_expression"] = form.get("cron_expression", "").strip()
    body["dst"] = {name: form.get(name) or BLANK[name] for name in ("gap", "fold")}
    for name in ("start_date", "end_date"):
        body[name] = reading.take(name, _moment)
    if reading.mistakes:
        raise FormMistakes(reading.mistakes)
    return decoded(msgspec.json.encode(body), PreviewSchedule)


class _FieldReader:
    """Reads fields, and goes on where one cannot be read."""

    def __init__(self, form: Form) -> None:
        self.mistakes: list[Mistake] = []
        self._form = form

    def take(self, name: str, read: Callable[[str], Any]) -> Any:
        text = self._form.get(name, "").strip()
        if not text:
            return None
        try:
            return read(text)
        except ValueError as error:
            self.mistakes.append(Mistake(f"/{name}", str(error)))
            return None


def _policy(form: Form, reading: _FieldReader, stored: CronJobView | None) -> dict[str, Any]:
    given = {
        name: reading.take(name, str if name == "backoff" else _number)
        for name in _POLICY
        if form.get(name, "").strip()
    }
    if not given:
        return {}
    kept = {} if stored is None else msgspec.to_builtins(stored.retry_policy)
    return {"retry_policy": kept | given}


def _target(form: Form, reading: _FieldReader) -> dict[str, Any]:
    match form.get("target_kind"):
        case "json":
            target = reading.take("target", _json)
            return {} if target is None else {"target": target}
        case "handler":
            return {}
    url = form.get("callback_url", "").strip()
    if kind_of(url) != "http":
        return {"target": document_of(url)}
    return {
        "callback_url": url,
        "callback_method": form.get("callback_method") or "POST",
    }


def _number(text: str) -> float:
    try:
        found = float(text.replace("_", ""))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("must be a number")
    return int(found) if found == int(found) else found


def _moment(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time in UTC, as 2030-01-31T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def _json(text: str) -> msgspec.Raw:
    content = text.encode()
    try:
        msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(f"is not JSON: {position(error, content)}") from error
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return msgspec.Raw(content)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)


def _moment_text(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def _json_text(raw: bytes) -> str:
    return "" if raw == b"null" else msgspec.json.format(raw, indent=2).decode()


_TEXTS = ("name", "task_type", "cron_expression", "interval_from", "timezone", "queue")
_NUMBERS = (
    "interval_seconds", "max_runs", "missed_after_seconds", "backfill_limit",
    "backfill_window_seconds", "jitter_seconds", "timeout_seconds", *_LEVELS,
)  # fmt: skip
_CHOSEN = ("overlap_policy", "missed_run_policy", "priority", "delivery", "keep_payload")
