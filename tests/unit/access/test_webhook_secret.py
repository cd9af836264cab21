"""Which secrets sign a call, how they are written, and what the signatures are worth."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from gnomon.access.webhook_secret import (
    Scheme,
    SigningSecret,
    changes_at,
    chosen,
    content_of,
    host_in,
    key_pair,
    normal_host,
    public_bytes,
    secret_bytes,
    signer,
)
from gnomon.node.run.targets.signing import header_text, request_body

NOW = datetime.now(UTC).replace(microsecond=0)
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
HOUR = timedelta(hours=1)


def secret(host: str | None = None, **values: Any) -> SigningSecret:
    fields = {"shared_until": None, "expires_at": None} | values
    return SigningSecret(id=uuid4(), host=host, scheme="v1", secret=SECRET, **fields)


def test_a_hosts_own_secrets_win_over_the_tenants() -> None:
    wide, own, other = secret(), secret("a.example"), secret("b.example")
    all_of_them = [wide, own, other]
    assert chosen(all_of_them, "a.example", NOW) == [own]
    assert chosen(all_of_them, "c.example", NOW) == [wide]
    assert chosen([other], "a.example", NOW) == []


def test_while_a_hosts_secret_is_new_the_tenants_sign_beside_it() -> None:
    wide, own = secret(), secret("a.example", shared_until=NOW + HOUR)
    assert chosen([wide, own], "a.example", NOW) == [own, wide]
    assert chosen([wide, own], "a.example", NOW + HOUR) == [own]
    assert changes_at([wide, own], NOW) == NOW + HOUR


def test_both_sign_until_the_old_one_ends() -> None:
    new, old = secret(), secret(expires_at=NOW + HOUR)
    assert chosen([new, old], "a.example", NOW) == [new, old]
    assert chosen([new, old], "a.example", NOW + HOUR) == [new]
    assert changes_at([new, old], NOW) == NOW + HOUR
    assert changes_at([new, old], NOW + HOUR) is None


def test_a_host_whose_own_secrets_have_ended_gets_the_tenants() -> None:
    wide, own = secret(), secret("a.example", expires_at=NOW)
    assert chosen([wide, own], "a.example", NOW) == [wide]


def test_no_value_is_shown() -> None:
    assert SECRET not in repr(secret())
    assert SECRET not in str([secret()])


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Hooks.Example.com", "hooks.example.com"),
        ("hooks.example.com.", "hooks.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("2001:db8:0::1", "2001:db8::1"),
        ("localhost", "localhost"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_hosts_have_one_spelling(text: str, host: str) -> None:
    assert normal_host(text) == host
    url = f"[{host}]" if ":" in host else text
    assert host_in(f"https://{url}:8443/path?x=1") == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a b", "a/b", "a:80", "user@a", "*.example", "-a", "a..b", "a\n", "\0"),
        *("x" * 64, "a." * 200, "ü" * 300),
    ],
)
def test_what_is_no_host_is_none(text: str) -> None:
    assert normal_host(text) is None


@given(st.text())
def test_anything_can_be_asked_to_be_a_host(text: str) -> None:
    host = normal_host(text)
    assert host is None or (host.isascii() and host.isprintable() and normal_host(host) == host)


@given(st.binary(min_size=24, max_size=64), st.text(st.characters(exclude_categories=["Cs"])))
def test_the_reference_accepts_what_v1_signs(key: bytes, body: str) -> None:
    text = "whsec_" + base64.b64encode(key).decode()
    stamp = str(int(datetime.now(UTC).timestamp()))  # the reference asks the clock
    signature = signer(Scheme.V1, text)(content_of("id", stamp, body.encode()))
    headers = {"webhook-id": "id", "webhook-timestamp": stamp, "webhook-signature": signature}
    Webhook(text).verify(body, headers, json_parse=False)


def test_the_public_key_accepts_what_v1a_signs() -> None:
    private, public = key_pair(bytes(range(32)))
    assert (private[:5], public[:5]) == ("whsk_", "whpk_")
    content = content_of("id", "1", b"{}")
    scheme, _, signature = signer(Scheme.V1A, private)(content).partition(",")
    assert scheme == "v1a"
    key = Ed25519PublicKey.from_public_bytes(public_bytes(public))
    key.verify(base64.b64decode(signature), content)


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "whsec_", "whsec_?", "whsec_é", "whsec_" + "A" * 20, "whsec_" + "A" * 88),
        *("AAAA" * 10, "whsk_" + "A" * 44),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_without_being_shown(wrong: str) -> None:
    with pytest.raises(ValueError, match="webhook secret") as refused:
        secret_bytes(wrong)
    assert len(wrong) < 8 or wrong[6:] not in str(refused.value)


def test_a_scheme_of_later_is_refused() -> None:
    with pytest.raises(ValueError, match="v9"):
        signer("v9", SECRET)


def test_a_body_that_is_expected_is_always_json() -> None:
    for method in ("POST", "PUT", "PATCH"):
        assert request_body(method, None) == b"null"
        assert request_body(method, b"{}") == b"{}"
    assert request_body("GET", b"{}") == request_body("GET", None) == b""
    assert request_body("DELETE", None) == b""
    assert request_body("DELETE", b"{}") == b"{}"


def test_a_tenant_of_plain_sql_cannot_break_out_of_its_header() -> None:
    assert header_text("acme-1_x") == "acme-1_x"
    assert header_text("a\r\nx: y") == "a%0D%0Ax%3A%20y"
