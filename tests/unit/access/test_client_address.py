"""Whose request it is: what a trusted proxy says, and nothing that anybody else says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.access.client_address import FORWARDED, MOST_HOPS, ClientAddresses, CountedAddress

PROXY, INNER = "10.0.0.1", "10.0.0.2"
TRUSTED = ("10.0.0.0/24", "fd00::/64")
XFF = "X-Forwarded-For"


def found(peer: str, *lines: str, header: str = XFF, name: str | None = None) -> CountedAddress:
    made = ClientAddresses(TRUSTED, ("127.0.0.0/8",), header)
    return made.of(peer, [((name or header).lower().encode(), x.encode("latin-1")) for x in lines])


@pytest.mark.parametrize(
    ("peer", "lines", "expected"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),  # nobody asked them
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),  # the first one is made up
        (PROXY, ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),  # the same, in two lines
        (PROXY, [f"203.0.113.9, 198.51.100.1, {INNER}"], "198.51.100.1"),  # two proxies
        (PROXY, [f"{INNER}"], INNER),  # one that asks by itself
        (PROXY, [], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, ["unknown"], PROXY),
        (PROXY, ["198.51.100.1, unknown"], PROXY),
        (PROXY, [f"198.51.100.1, garbage, {INNER}"], INNER),
        (PROXY, ["198.51.100.1:4711"], "198.51.100.1"),
        (PROXY, ["[2001:db8:1:2:3::4]:4711"], "2001:db8:1:2::/64"),
        (PROXY, ["2001:db8:1:2:3::4"], "2001:db8:1:2::/64"),
        (PROXY, ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
        ("", [], ""),
    ],
)
def test_the_last_address_that_is_not_a_proxy(peer: str, lines: list[str], expected: str) -> None:
    assert found(peer, *lines).group == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("for=198.51.100.1", "198.51.100.1"),
        ('For="198.51.100.1:4711";proto=https', "198.51.100.1"),
        ('proto=https;for="[2001:db8:1:2::3]:4711";by=10.0.0.1', "2001:db8:1:2::/64"),
        ("for=203.0.113.9, for=198.51.100.1", "198.51.100.1"),
        ('for=", for=198.51.100.1', "198.51.100.1"),  # a quote that somebody left open
        ("for=203.0.113.9, for=_hidden", PROXY),
        # What a client sends may stand within the quotes of the proxy: here, a Host.
        ('for=198.51.100.1;host="x,for=127.0.0.1"', "198.51.100.1"),
        ('for=198.51.100.1;host="x,for=127.0.0.1";proto=http', "198.51.100.1"),
        ('host="x;for=127.0.0.1";for=198.51.100.1', "198.51.100.1"),
        (r'for=198.51.100.1;host="x\",for=127.0.0.1;y=\""', "198.51.100.1"),
        ('for="x, for=203.0.113.9;host="x,for=127.0.0.1", for=198.51.100.1', "198.51.100.1"),
        (r'for=198.51.100.1;host="x,for=127.0.0.1\\\\"', "198.51.100.1"),
        ("for=127.0.0.1;for=198.51.100.1", PROXY),  # which of them?
        ("proto=https", PROXY),
    ],
)
def test_the_same_in_the_words_of_the_standard(line: str, expected: str) -> None:
    assert found(PROXY, line, header=FORWARDED).group == expected


def test_a_header_that_no_proxy_sets_is_not_believed() -> None:
    assert found(PROXY, "for=203.0.113.9", name=FORWARDED).group == PROXY
    assert found(PROXY, "203.0.113.9", header=FORWARDED, name=XFF).group == PROXY


def test_loopback_behind_a_proxy_is_what_the_proxy_says() -> None:
    assert found("127.0.0.1").unlimited
    assert not found("192.0.2.7", "127.0.0.1").unlimited
    assert not found(PROXY, "127.0.0.1, 192.0.2.7").unlimited


@pytest.mark.parametrize("line", ["unknown", "", "198.51.100.1, unix:"])
def test_whoever_cannot_be_told_behind_a_local_proxy_is_limited(line: str) -> None:
    made = ClientAddresses(("127.0.0.0/8",), ("127.0.0.0/8",), XFF)
    assert not made.of("127.0.0.1", [(b"x-forwarded-for", line.encode())]).unlimited
    assert made.of("127.0.0.1", []).unlimited, "nobody's but its own"


def test_no_more_proxies_are_looked_through_than_anybody_has() -> None:
    hops = ", ".join([INNER] * MOST_HOPS)
    assert found(PROXY, f"192.0.2.7, {hops}").group == INNER
    assert found(PROXY, "192.0.2.7", *([INNER] * MOST_HOPS)).group == INNER


@given(st.text(st.characters(codec="latin-1"), max_size=200), st.sampled_from((XFF, FORWARDED)))
def test_garbage_is_nobody(text: str, header: str) -> None:
    own = f"for={INNER}" if header == FORWARDED else INNER
    assert found(PROXY, f"{text}, {own}", header=header).group
    assert found(PROXY, text, header=header).group
    assert found("192.0.2.7", text, header=header).group == "192.0.2.7"
