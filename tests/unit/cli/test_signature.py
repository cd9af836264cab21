"""The signature check, against the reference implementation of Standard Webhooks."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from gnomon.access.webhook_secret import Scheme, content_of, key_pair, signer
from gnomon.client.signature import check_secret, verify

NOW = datetime(2030, 1, 31, 9, tzinfo=UTC)
KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def signed(body: str, at: datetime = NOW, secret: str = SECRET) -> dict[str, str]:
    return {
        "webhook-id": "msg",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg", at, body),
    }


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_the_reference_signs_is_accepted(body: str) -> None:
    assert verify([SECRET], signed(body), body.encode(), NOW)


def test_a_changed_body_is_refused() -> None:
    assert not verify([SECRET], signed("1"), b"2", NOW)


def test_another_secret_is_refused() -> None:
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert not verify([SECRET], signed("1", secret=other), b"1", NOW)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_an_old_or_future_call_is_refused(minutes: int) -> None:
    at = NOW + timedelta(minutes=minutes)
    assert not verify([SECRET], signed("1", at), b"1", NOW)


def test_one_good_signature_among_several_is_enough() -> None:
    headers = signed("1")
    headers["webhook-signature"] = f"v1,AAAA v2,xyz {headers['webhook-signature']}"
    assert verify([SECRET], headers, b"1", NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_call_without_one_of_the_headers_is_refused(missing: str) -> None:
    headers = signed("1")
    del headers[missing]
    assert not verify([SECRET], headers, b"1", NOW)


@pytest.mark.parametrize("header", ["webhook-timestamp", "webhook-signature"])
def test_a_header_full_of_nonsense_is_refused(header: str) -> None:
    for nonsense in ("²é", "9" * 400, "\udcff", ""):
        assert not verify([SECRET], signed("1") | {header: nonsense}, b"1", NOW)


def test_any_of_several_secrets_is_enough() -> None:
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert verify([other, SECRET], signed("1"), b"1", NOW)
    assert not verify([], signed("1"), b"1", NOW)


def test_a_public_key_checks_what_its_private_key_signed() -> None:
    private, public = key_pair(KEY)
    _, stranger = key_pair(bytes(32))
    headers = signed("1")
    made = signer(Scheme.V1A, private)(content_of("msg", headers["webhook-timestamp"], b"1"))
    headers["webhook-signature"] += f" {made}"
    assert verify([public], headers, b"1", NOW)
    assert not verify([public], headers, b"2", NOW)
    assert not verify([stranger], headers, b"1", NOW)
    assert verify([SECRET], headers, b"1", NOW)
    for nonsense in ("v1a,", "v1a,?", "v1a,AAAA", "v1a", made.replace("v1a,", "v1,")):
        assert not verify([public], headers | {"webhook-signature": nonsense}, b"1", NOW)


@pytest.mark.parametrize("wrong", ["whsec_?", "whsec_AAAA", "whpk_?", "whsk_AAAA", "AAAA", ""])
def test_a_secret_that_cannot_be_used_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match="webhook secret"):
        check_secret(wrong)
