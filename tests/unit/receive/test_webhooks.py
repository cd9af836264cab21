"""Calls are read where they are genuine, and their payload becomes what the receiver takes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from gnomon.access.webhook_secret import Scheme, content_of, key_pair, signer
from gnomon.receive import BadPayload, NotGenuine, Webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 8
PRIVATE, PUBLIC = key_pair(bytes(range(32)))
TASK = "019aa0c8-1111-7000-8000-000000000001"


class Charge(msgspec.Struct):
    cents: int
    at: datetime


class PydanticCharge(pydantic.BaseModel):
    cents: int
    at: datetime


def call(
    body: bytes = b"null",
    *,
    secret: str = SECRET,
    scheme: Scheme = Scheme.V1,
    late: float = 0.0,
    **headers: str,
) -> dict[str, str]:
    """The headers of a call that was signed `late` seconds ago."""
    timestamp = str(int((datetime.now(UTC) - timedelta(seconds=late)).timestamp()))
    return {
        "Webhook-Id": TASK,
        "Webhook-Timestamp": timestamp,
        "Webhook-Signature": signer(scheme, secret)(content_of(TASK, timestamp, body)),
        "Idempotency-Key": "order-1",
        "Gnomon-Task-Type": "charge%20card",
        "Gnomon-Tenant": "acme",
        "Gnomon-Attempt": "2",
        "Gnomon-Fence": "5",
        "Gnomon-Scheduled-For": "2026-01-02T03:04:05.678Z",
        **{name.replace("_", "-").title(): value for name, value in headers.items()},
    }


def test_a_genuine_call_says_which_execution_it_is() -> None:
    read = Webhooks([SECRET]).read(call(b'{"n": 1}'), b'{"n": 1}')
    assert read.task_id == UUID(TASK)
    assert (read.task_type, read.tenant, read.attempt, read.fence) == ("charge card", "acme", 2, 5)
    assert read.scheduled_for == datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    assert (read.idempotency_key, read.payload) == ("order-1", {"n": 1})
    assert read.correlation_id == str(read.task_id)  # of a node that sends none


@pytest.mark.parametrize("kind", [Charge, PydanticCharge])
def test_the_payload_becomes_the_type_that_is_taken(kind: Any) -> None:
    body = b'{"cents": 250, "at": "2026-01-02T03:04:05Z"}'
    payload = Webhooks([SECRET]).read(call(body), body, kind).payload
    assert type(payload) is kind
    assert (payload.cents, payload.at) == (250, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize("kind", [Charge, PydanticCharge])
def test_another_payload_is_refused_with_the_field(kind: Any) -> None:
    body = b'{"cents": "many", "at": "2026-01-02T03:04:05Z"}'
    with pytest.raises(BadPayload, match="cents"):
        Webhooks([SECRET]).read(call(body), body, kind)


def test_a_call_without_a_body_has_no_payload() -> None:
    assert Webhooks([SECRET]).read(call(b""), b"").payload is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (call(b"1"), b"2"),
        (call(b"1", secret=OTHER), b"1"),
        (call(b"1", late=4000), b"1"),
        (call(b"1", late=-4000), b"1"),
        (call(b"1", webhook_id="019aa0c8-1111-7000-8000-000000000002"), b"1"),
        (call(b"1", scheme=Scheme.V1A, secret=PRIVATE), b"1"),
        ({}, b"1"),
    ],
    ids=["body", "secret", "old", "future", "other task", "unknown key", "nothing"],
)
def test_what_is_not_signed_for_now_is_not_genuine(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(NotGenuine):
        Webhooks([SECRET]).read(headers, body)


def test_several_secrets_and_both_schemes_are_taken() -> None:
    webhooks = Webhooks([OTHER, SECRET, PUBLIC])
    assert webhooks.read(call(b"1"), b"1").payload == 1
    signed = call(b"1", scheme=Scheme.V1A, secret=PRIVATE)
    assert webhooks.read(signed, b"1").payload == 1


def test_the_clock_may_differ_by_as_much_as_is_tolerated() -> None:
    assert Webhooks([SECRET], tolerance="10m").read(call(b"1", late=400), b"1").payload == 1
    with pytest.raises(NotGenuine):
        Webhooks([SECRET], tolerance=60).read(call(b"1", late=100), b"1")


def test_a_receiver_of_one_tenant_takes_no_other() -> None:
    assert Webhooks([SECRET], tenant="acme").read(call(b"1"), b"1").tenant == "acme"
    with pytest.raises(NotGenuine, match="'default'"):
        Webhooks([SECRET], tenant="default").read(call(b"1"), b"1")


@pytest.mark.parametrize(
    ("name", "value"),
    [("Gnomon-Fence", "9" * 19), ("Gnomon-Attempt", "-1"), ("Gnomon-Scheduled-For", "soon")],
)
def test_headers_that_nobody_signs_are_not_trusted(name: str, value: str) -> None:
    with pytest.raises(BadPayload, match="header"):
        Webhooks([SECRET]).read({**call(b"1"), name: value}, b"1")


def test_a_dropped_header_is_named() -> None:
    headers = call(b"1")
    del headers["Gnomon-Fence"]
    with pytest.raises(BadPayload, match="gnomon-fence"):
        Webhooks([SECRET]).read(headers, b"1")


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GNOMON_WEBHOOK_SECRETS", f"{OTHER} {SECRET}")
    assert Webhooks().read(call(b"1"), b"1").payload == 1
    (tmp_path / "secrets").write_text(f"{SECRET}\n")
    monkeypatch.setenv("GNOMON_WEBHOOK_SECRETS", OTHER)
    monkeypatch.setenv("GNOMON_WEBHOOK_SECRETS_FILE", str(tmp_path / "secrets"))
    assert Webhooks().read(call(b"1"), b"1").payload == 1


@pytest.mark.parametrize("secrets", [[], ["secret"], ["whsec_!"]])
def test_no_secret_and_nonsense_are_refused_at_once(secrets: list[str]) -> None:
    with pytest.raises(ValueError, match="secret"):
        Webhooks(secrets)


def test_one_secret_is_not_taken_for_a_list_of_its_characters() -> None:
    with pytest.raises(TypeError, match=r"Webhooks\(\[secret\]\)"):
        Webhooks(SECRET)
