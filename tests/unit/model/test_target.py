"""What a task may call, as it is read from JSON."""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gnomon.model.targets.target import HttpTarget, PythonTarget, Target


def decoded(**values: object) -> Target:
    target: Target = msgspec.json.decode(msgspec.json.encode(values), type=Target)
    target.check()
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
    with pytest.raises(ValueError, match="url"):
        http(url=url)


@pytest.mark.parametrize(
    "host",
    [
        "a\\b", "a..b", ".a", "%41", "a!b", "a'b", "ä" * 60, "x" * 64, "[v1.a]", "[::1%25a b]",
        "[::1%25\x07]", "[1.2.3.4]", "a\u202eb", "a\u200bb", "a\x85b", "[::g]", "a,b",
    ],
)  # fmt: skip
def test_a_host_that_no_name_can_be_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="url"):
        http(url=f"http://{host}/")


@pytest.mark.parametrize("path", ["\x9b31m", "\u202e", "\u2028", "\ufeff"])
def test_a_path_with_characters_that_cannot_be_seen_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="encode them"):
        http(url=f"http://example.com/{path}")


@given(
    st.sampled_from(["http://", "https://", "http:", "HTTP://"]),
    st.text("aZ0.-_~:@[]%/\\\t\n \x00ä☃İ。\uff11\u0131", max_size=12) | st.text(max_size=12),
    st.sampled_from(["", ":80", ":", ":65535", ":65536", ":٣"]),
    st.text(max_size=12),
)
def test_whatever_url_is_taken_can_be_called(scheme: str, host: str, port: str, path: str) -> None:
    try:
        target = HttpTarget(f"{scheme}{host}{port}/{path}")
        target.check()
    except ValueError:
        return
    url = URL(target.url)  # as the client reads it
    assert url.raw_host
    assert url.raw_host.isascii()
    assert url.user is None
    assert url.password is None
    assert str(url).isascii()


def test_a_url_that_is_refused_does_not_give_its_secret_away() -> None:
    with pytest.raises(ValueError, match="credentials") as refusal:
        http(url="http://user:secret@example.com/")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("method", ["post", "HEAD", "CONNECT", "GET /x HTTP/1.1\r\n", ""])
def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match="method"):
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
        ("x" * 201, "x"),
    ],
)
def test_a_header_that_breaks_the_message_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="header"):
        http(headers={name: value})


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length", "host", "Transfer-Encoding", "connection", "Idempotency-Key",
        "Webhook-Id", "webhook-signature", "GNOMON-anything", "upgrade", "te", "trailer",
    ],
)  # fmt: skip
def test_a_header_of_ours_cannot_be_chosen(name: str) -> None:
    with pytest.raises(ValueError, match="set by Gnomon"):
        http(headers={name: "x"})


def test_too_many_headers_and_unknown_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 64"):
        http(headers={f"x-{n}": "" for n in range(65)})
    with pytest.raises(ValueError, match="unknown field"):
        http(follow_redirects=True)


def test_what_was_stored_under_other_rules_can_still_be_read() -> None:
    """A row that cannot be read would stop every node that claims it."""
    for target in (
        HttpTarget("http://example.com/" + "x" * 5000, "HEAD", {"a b": "\r\n"}),
        HttpTarget("http://a..b/", headers={f"x-{n}": "" for n in range(65)}),
        PythonTarget(""),
        PythonTarget("x" * 300),
    ):
        assert msgspec.json.decode(msgspec.json.encode(target), type=Target) == target
        with pytest.raises(ValueError, match=r"url|function"):
            target.check()


def test_a_function_needs_a_name() -> None:
    for name in ("", "x" * 201, "a\nb", "a\x00"):
        with pytest.raises(ValueError, match="function"):
            decoded(type="python", function=name)


@given(st.text(string.ascii_letters + string.digits + "-_!#$", min_size=1, max_size=30), st.text())
def test_whatever_header_is_taken_stays_within_its_line(name: str, value: str) -> None:
    try:
        target = http(headers={name: value})
    except ValueError:
        return
    assert isinstance(target, HttpTarget)
    assert target.headers == {name: value}
    assert not set("\r\n\x00") & set(name + value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.test/a?b", "example.test:80"),
        ("https://example.test", "example.test:443"),
        ("https://user:secret@example.test:8443/", "example.test:8443"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("http://[::1]/", "[::1]:80"),
        ("https://[2001:DB8::1]:8443/", "[2001:db8::1]:8443"),
    ],
)
def test_a_host_has_one_spelling(url: str, host: str) -> None:
    assert HttpTarget(url).host == host


def a_host_of(characters: int) -> str:
    """In labels of 63, as DNS has them."""
    return ".".join(["x" * 63] * 4)[:characters]


def test_a_host_is_as_long_as_dns_allows_at_the_most() -> None:
    for host in (a_host_of(253), a_host_of(253) + "."):
        assert http(url=f"http://{host}/") == HttpTarget(f"http://{host}/")
    for host in (a_host_of(254), a_host_of(254) + "."):
        with pytest.raises(ValueError, match="at most 253 characters; got"):
            http(url=f"http://{host}/")


@pytest.mark.parametrize("url", ["http://[::1/", "http://example.test:port/", "http://h:99999/"])
def test_a_url_that_cannot_be_read_is_its_own_host(url: str) -> None:
    """It was stored by plain SQL, or under other rules: the breakers still need a name for it."""
    assert HttpTarget(url).host == url
    long = url + "x" * 5000
    assert len(HttpTarget(long).host) < 253
    assert HttpTarget(long).host != HttpTarget(long + "x").host
