"""What a task may call, as it is read from JSON."""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.target import HttpTarget, PythonTarget, Target


def decoded(**values: object) -> Target:
    target: Target = msgspec.json.decode(msgspec.json.encode(values), type=Target)
    return target


def http(**values: object) -> Target:
    return decoded(**({"type": "http", "url": "https://example.com/"} | values))


def test_each_kind_is_known_by_its_type() -> None:
    assert http() == HttpTarget("https://example.com/")
    assert decoded(type="python", function="f") == PythonTarget("f")
    with pytest.raises(msgspec.ValidationError):
        decoded(type="carrier pigeon", url="https://example.com/")
    with pytest.raises(msgspec.ValidationError):
        decoded(url="https://example.com/")


def test_what_is_written_is_read_back() -> None:
    for target in (
        HttpTarget("http://h/", "PUT", {"x-a": "b"}),
        PythonTarget("f"),
    ):
        text = msgspec.json.encode(target)
        assert msgspec.json.decode(text, type=Target) == target


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com:8443/a%20b?c=d#e",
        "http://127.0.0.1:9/",
        "http://[::1]:80/x",
        "HTTPS://EXAMPLE.COM/",
        "https://bücher.example/",
    ],
)
def test_a_url_with_scheme_and_host_is_taken(url: str) -> None:
    assert http(url=url) == HttpTarget(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://:80/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:port/",
        "http://[::1/",
        "http://example.com/a b",
        "http://example.com/\r\nx-injected: 1",
        "http://example.com/\x00",
        "http://example.com/\x7f",
        "http://example.com/" + "x" * 4096,
    ],
)
def test_a_url_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        http(url=url)


def test_a_url_that_is_refused_does_not_give_its_secret_away() -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        http(url="http://user:secret@example.com/")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("method", ["post", "HEAD", "CONNECT", "GET /x HTTP/1.1\r\n", ""])
def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="method"):
        http(method=method)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"),
        ("a b", "x"),
        ("a:", "x"),
        ("ü", "x"),
        ("a\r\nb", "x"),
        ("x-a", "1\r\nx-b: 2"),
        ("x-a", "1\n"),
        ("x-a", "a\x00b"),
        ("x-a", "a\x7f"),
        ("x-a", "x" * 8193),
    ],
)
def test_a_header_that_breaks_the_message_is_refused(name: str, value: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="header"):
        http(headers={name: value})


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length", "host", "Transfer-Encoding", "connection", "Idempotency-Key",
        "Webhook-Id", "webhook-signature", "GNOMON-anything", "upgrade", "te", "trailer",
    ],
)  # fmt: skip
def test_a_header_of_ours_cannot_be_chosen(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="set by Gnomon"):
        http(headers={name: "x"})


def test_too_many_headers_and_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        http(headers={f"x-{n}": "" for n in range(65)})
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        http(follow_redirects=True)


def test_a_function_needs_a_name() -> None:
    for name in ("", "x" * 201):
        with pytest.raises(msgspec.ValidationError):
            decoded(type="python", function=name)


@given(st.text(string.ascii_letters + string.digits + "-_!#$", min_size=1, max_size=30), st.text())
def test_whatever_header_is_taken_stays_within_its_line(name: str, value: str) -> None:
    try:
        target = http(headers={name: value})
    except msgspec.ValidationError:
        return
    assert isinstance(target, HttpTarget)
    assert target.headers == {name: value}
    assert not set("\r\n\x00") & set(name + value)
