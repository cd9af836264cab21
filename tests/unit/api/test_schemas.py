"""What comes in, checked and explained, without a server."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.api.http.answers.problems import RequestError
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.idempotency import once_of
from gnomon.api.http.requests.reading import decoded
from gnomon.api.tasks.views import new_view
from gnomon.model.errors import InvalidTask, PayloadTooLarge
from gnomon.model.ids import created_at
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.usecases.checks.validation import explain
from gnomon.usecases.tasks.change_task import patch_of
from gnomon.usecases.tasks.submit import submission_of
from gnomon.usecases.tasks.task_requests import PatchTask, SubmitBatch, SubmitTask

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BODY: dict[str, Any] = {"task_type": "t", "callback_url": "http://127.0.0.1/"}


BY = Principal(tenant_id="default", name=None, roles=TENANT_ROLES)


def submission(**fields: Any) -> Submission:
    asked = decoded(msgspec.json.encode(BODY | fields), SubmitTask)
    return submission_of(asked, BY, NOW, None, 100)


def test_defaults_are_filled_in() -> None:
    new = submission()
    assert (new.execute_at, new.due_at) == (NOW, NOW)
    assert (new.priority, new.retry_policy, new.payload) == (Lane.MEDIUM, RetryPolicy(), None)
    assert new.target == HttpTarget("http://127.0.0.1/", "POST")
    assert created_at(new.id) == NOW


@given(st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)))
def test_nothing_is_due_before_now_or_before_its_time(offset: timedelta) -> None:
    moment = NOW + offset
    new = submission(execute_at=moment)
    assert new.execute_at == moment
    assert new.due_at == max(moment, NOW)


@given(st.floats(0, 1e9))
def test_a_delay_counts_from_now(seconds: float) -> None:
    assert submission(delay_seconds=seconds).due_at == NOW + timedelta(seconds=seconds)


def test_a_zone_is_converted() -> None:
    new = submission(execute_at="2026-06-01T10:00:00+02:00")
    assert (new.execute_at.hour, new.execute_at.tzinfo) == (8, UTC)


def test_a_payload_is_kept_as_it_was_written() -> None:
    body = b'{"task_type":"t","callback_url":"http://x/","payload": {"b":1.50, "a":1e3} }'
    asked = decoded(body, SubmitTask)
    assert submission_of(asked, BY, NOW, None, 100).payload == b'{"b":1.50, "a":1e3}'
    with pytest.raises(PayloadTooLarge):
        submission(payload="x" * 99)


def test_a_patch_leaves_out_what_is_not_named() -> None:
    patch = patch_of(decoded(b'{"name": null, "priority": "LOW"}', PatchTask), NOW, 100)
    assert (patch.name, patch.priority) == (None, Lane.LOW)
    unset = {name for name in patch.__struct_fields__ if getattr(patch, name) is msgspec.UNSET}
    assert unset == set(patch.__struct_fields__) - {"name", "priority"}
    assert patch_of(decoded(b'{"payload": null}', PatchTask), NOW, 100).payload is None


@given(st.uuids())
def test_a_cursor_goes_there_and_back(cursor: UUID) -> None:
    assert cursor_of(cursor_view(cursor)) == cursor


@given(st.text())
def test_no_text_breaks_a_cursor(text: str) -> None:
    with contextlib.suppress(InvalidTask):
        assert isinstance(cursor_of(text), UUID)


@given(st.binary())
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    with contextlib.suppress(InvalidTask, RequestError):
        decoded(body, SubmitTask)


@pytest.mark.parametrize(
    ("kind", "body", "pointer", "words"),
    [
        (SubmitTask, {"retry_policy": {"jitterr": 1}}, "/retry_policy/jitterr", "'jitter'"),
        (SubmitTask, {"target": {"type": "http", "uri": ""}}, "/target/uri", "'url'"),
        (SubmitTask, {"target": {"type": "smtp"}}, "/target/type", "http, grpc, queue, python"),
        (SubmitBatch, {"tasks": [{"task_type": 1}]}, "/tasks/0/task_type", "str"),
        (SubmitBatch, {"tasks": [{"task_typ": 1}]}, "/tasks/0/task_typ", "'task_type'"),
        (SubmitBatch, {"tasks": {}}, "/tasks", "array"),
    ],
)
def test_a_mistake_is_placed(kind: type, body: Any, pointer: str, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(msgspec.json.encode(body), type=kind)
    found = explain(caught.value, kind)
    assert found.pointer == pointer
    assert words in found.detail


def test_a_fingerprint_is_about_the_meaning() -> None:
    def fingerprint(body: bytes, path: str = "/p") -> bytes:
        return once_of("k", "POST", path, body).fingerprint

    assert fingerprint(b'{"a":1,"b":[1,2]}') == fingerprint(b' {"b" : [1, 2], "a":1}')
    assert fingerprint(b'{"a":1}') == fingerprint(b'{"a":1,"idempotency_key":"k"}')
    assert fingerprint(b"{}") == fingerprint(b"")
    different = [b'{"a":1}', b'{"a":1.0}', b'{"a":"1"}', b'{"a":[1]}', b'{"b":1}', b"{}"]
    assert len({fingerprint(body) for body in different}) == len(different)
    assert fingerprint(b"{}") != fingerprint(b"{}", "/q")
    assert len(fingerprint(b'{"a":' + b"9" * 10_000 + b"}")) == 32


def test_a_view_shows_every_value_of_the_policy() -> None:
    view = new_view(submission(), NOW)
    shown = msgspec.json.decode(msgspec.json.encode(view))
    assert shown["retry_policy"] == {
        "max_retries": 3, "backoff": "exponential", "base_seconds": 1.0, "max_seconds": 60.0,
        "jitter": True, "retry_client_errors": False,
    }  # fmt: skip
    assert shown["execute_at"] == "2026-05-01T12:00:00Z"
    assert shown["payload"] is None
