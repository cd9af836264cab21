"""Allow-lists: which targets an entry means, however they are written."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gnomon.model.targets.allow_list import (
    EVERYTHING,
    AllowList,
    _host_pattern,
    allow_list,
    called_host,
    function_pattern,
    host_pattern,
)
from gnomon.model.targets.target import HttpTarget, PythonTarget


@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        (
            "api.example.com",
            ["http://api.example.com/", "https://API.Example.com.:8443/x?y#z", "http://api\u3002example.com",
             "http://\uff41\uff50\uff49.example.com/"],
            ["http://example.com/", "http://x.api.example.com/", "http://api.example.com.evil.com/",
             "http://evil.com/api.example.com", "http://evil.com/?@api.example.com",
             "http://evil.com#@api.example.com", "http://api.example.com@evil.com/",
             "http://apixexample.com/"],
        ),
        (
            "*.example.com",
            ["http://a.example.com/", "http://a.b.example.com:1/"],
            ["http://example.com/", "http://aexample.com/", "http://.com", "http://example.com.evil/"],
        ),
        (
            "api.example.com:8443",
            ["https://api.example.com:8443/"],
            ["https://api.example.com/", "https://api.example.com:443/"],
        ),
        (
            "*.example.com:443",
            ["https://a.example.com/", "http://a.example.com:443/"],
            ["http://a.example.com/"],
        ),
        ("xn--strae-oqa.de", ["http://straße.de/"], ["http://strasse.de/"]),
        ("STRASSE.de", ["http://strasse.de/"], ["http://straße.de/"]),
        ("bücher.example", ["http://xn--bcher-kva.example"], ["http://bucher.example/"]),
        ("10.0.0.1", ["http://10.0.0.1:80/", "http://\uff11\uff10.0.0.1/"], ["http://10.0.0.11/"]),
        ("[2001:db8::1]", ["http://[2001:DB8:0:0::1]:99/"], ["http://[2001:db8::2]/"]),
        ("2001:db8::1", ["http://[2001:db8::1]/"], []),
        ("[2001:db8::1]:99", ["http://[2001:db8::1]:99/"], ["http://[2001:db8::1]/"]),
    ],
)  # fmt: skip
def test_a_host_is_meant_however_it_is_written(
    pattern: str, allowed: list[str], refused: list[str]
) -> None:
    listed = AllowList(None, (host_pattern(pattern),))
    assert [url for url in allowed if not listed.allows(HttpTarget(url))] == []
    assert [url for url in refused if listed.allows(HttpTarget(url))] == []
    assert listed.allows(PythonTarget("anything"))


@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        ("billing.charge", ["billing.charge"], ["billing.charge2", "billing", "Billing.charge"]),
        ("billing.*", ["billing.charge", "billing.a.b"], ["billing", "billings.x", "x.billing.y"]),
    ],
)
def test_a_function_is_meant_by_its_name_or_its_beginning(
    pattern: str, allowed: list[str], refused: list[str]
) -> None:
    listed = AllowList((function_pattern(pattern),), None)
    assert [name for name in allowed if not listed.allows(PythonTarget(name))] == []
    assert [name for name in refused if listed.allows(PythonTarget(name))] == []
    assert listed.allows(HttpTarget("http://example.com/"))


def test_no_list_allows_all_and_an_empty_one_nothing() -> None:
    for target in (HttpTarget("http://example.com/"), PythonTarget("f")):
        assert EVERYTHING.allows(target)
        assert not AllowList((), ()).allows(target)
    assert not EVERYTHING.limits
    assert AllowList((), None).limits


@pytest.mark.parametrize(
    "wrong",
    ["", "*", "*.", "a.*.com", "**.com", "http://a.com", "a.com/x", "a.com:0", "a.com:x", "a b.com",
     "a.com:99999", "*.10.0.0.1", "u@a.com", "a..com", "[::1", "%61.com", "a" * 300, ".com"],
)  # fmt: skip
def test_what_is_no_host_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="a host is"):
        host_pattern(wrong)


@pytest.mark.parametrize("wrong", ["", "*", "a*b", "*.x", "a**", "a\nb", "x" * 300])
def test_what_is_no_function_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="a function is"):
        function_pattern(wrong)


def test_an_entry_that_cannot_be_read_allows_nothing() -> None:
    stored = allow_list(["a*b", "ok"], ["http://x", "OK.example", None])  # type: ignore[list-item]
    assert stored == AllowList(("ok",), ("ok.example",))


def test_an_unreadable_url_is_allowed_by_no_list() -> None:
    assert called_host("http://[half") is None
    assert not AllowList(None, ("*.com",)).allows(HttpTarget("http://[half"))


hosts = st.sampled_from(["a.com", "*.a.com", "b.a.com", "*.b.a.com", "a.com:80", "*.a.com:443",
                         "b.a.com:443", "com", "*.com", "10.0.0.1", "[::1]:80"])  # fmt: skip
urls = st.builds(
    "{}://{}{}/".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.com", "b.a.com", "c.b.a.com", "com", "xa.com", "10.0.0.1", "[::1]"]),
    st.sampled_from(["", ":80", ":443", ":99"]),
)
functions = st.sampled_from(["a", "a*", "a.*", "a.b", "a.b*", "b", "ab"])
lists = st.none() | st.lists(hosts, max_size=3).map(tuple)
function_lists = st.none() | st.lists(functions, max_size=3).map(tuple)


@given(lists, lists, urls)
def test_what_covers_allows_all_that_is_covered(
    wide: tuple[str, ...] | None, narrow: tuple[str, ...] | None, url: str
) -> None:
    one, other = AllowList(None, wide), AllowList(None, narrow)
    assert one.covers(one)
    if one.covers(other) and other.allows(HttpTarget(url)):
        assert one.allows(HttpTarget(url))


@given(function_lists, function_lists, st.sampled_from(["a", "a.", "a.b", "a.bc", "ab", "b", "c"]))
def test_what_covers_functions_allows_all_that_is_covered(
    wide: tuple[str, ...] | None, narrow: tuple[str, ...] | None, name: str
) -> None:
    one, other = AllowList(wide, None), AllowList(narrow, None)
    if one.covers(other) and other.allows(PythonTarget(name)):
        assert one.allows(PythonTarget(name))


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("*.a.com", "b.a.com", True),
        ("*.a.com", "*.b.a.com", True),
        ("*.a.com", "*.a.com", True),
        ("*.a.com", "*.a.com:443", True),
        ("*.a.com:443", "c.b.a.com:443", True),
        ("a.com", "a.com:80", True),
        ("*.a.com", "a.com", False),
        ("a.com", "*.a.com", False),
        ("*.b.a.com", "*.a.com", False),
        ("*.a.com", "xa.com", False),
        ("*.a.com:443", "b.a.com", False),
        ("*.a.com:443", "b.a.com:80", False),
        ("a.com:80", "a.com", False),
    ],
)
def test_which_host_covers_which(wide: str, narrow: str, covered: bool) -> None:
    own = AllowList(None, ("x.example", wide, "*.y.example:1"))
    assert own.covers(AllowList(None, (narrow,))) is covered
    assert own.covers(AllowList(None, (narrow, "x.example"))) is covered


@given(st.from_regex(r"(\*\.)?[a-z0-9_.-]{1,70}(:[0-9]{1,5})?", fullmatch=True))
@example("xn--bcher-kva.example")
@example("a" * 64 + ".example")
@example("127.0.0.1")
@example("*.0x7f")
@example("a.com:65536")
@example("a.com:0")
@example("a.com:080")
def test_what_is_read_the_short_way_is_what_the_long_way_finds(text: str) -> None:
    def read() -> str | None:
        _host_pattern.cache_clear()
        try:
            return host_pattern(text)
        except ValueError:
            return None

    short = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnomon.model.targets.allow_list._STORED", re.compile("(?!)"))
        assert short == read()


def test_a_page_of_keys_with_long_lists_is_judged_in_no_time() -> None:
    """Whoever else asks waits for the same processor."""
    deep = ".".join("a" * 110)
    own = AllowList(
        tuple(f"m{n}.*" for n in range(100)), tuple(f"*.h{n}.example" for n in range(100))
    )
    started = time.process_time()
    for key in range(500):
        names = [f"m99.k{key}.f{n}" for n in range(100)]
        hosts = [f"{deep}.k{key}.n{n}.h99.example:8443" for n in range(100)]
        assert own.covers(allow_list(names, hosts))
    assert time.process_time() - started < 2.0  # it took more than 5, and takes less than 1


def test_a_refusal_says_what_is_allowed_and_is_bounded() -> None:
    many = AllowList(None, tuple(f"h{n}.example" for n in range(100)))
    told = many.refusal(HttpTarget("http://x.example/"), "your key")
    assert "the host x.example:80, but your key is only for the hosts: h0.example, h1" in told
    assert told.endswith("and 80 more")
    none = AllowList((), None).refusal(PythonTarget("f"), "the tenant")
    assert none == "calls the function 'f', but the tenant is only for the functions: none"
