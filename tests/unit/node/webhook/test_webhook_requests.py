"""Requests of webhooks, as they are sent."""

import pytest

from gnomon.model.targets.target import HttpTarget
from gnomon.node.run.targets.webhook import request
from gnomon.node.run.targets.webhook.request import ServerOrigin, plan_of, request_of


def lines(target: HttpTarget, headers: dict[str, str], body: bytes) -> list[str]:
    sent = b"".join(request_of(plan_of(target), headers, body))
    head, _, rest = sent.partition(b"\r\n\r\n")
    assert rest == body
    return head.decode().split("\r\n")


def test_a_request_says_who_calls_and_how_much_is_sent() -> None:
    first, *rest = lines(HttpTarget("http://a.example/x?y=1#z"), {"webhook-id": "1"}, b"{}")
    assert first == "POST /x?y=1 HTTP/1.1"
    names = {line.partition(":")[0] for line in rest}
    assert len(names) == len(rest)
    assert {"host: a.example", "webhook-id: 1", "content-length: 2", "accept: */*"} <= set(rest)
    assert {"content-type: application/json", "accept-encoding: identity"} <= set(rest)


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("http://A.example", ServerOrigin("a.example", 80, False), "a.example"),
        ("https://a.example:443/", ServerOrigin("a.example", 443, True), "a.example"),
        ("https://a.example:80/", ServerOrigin("a.example", 80, True), "a.example:80"),
        ("http://[::1]:8080/", ServerOrigin("::1", 8080, False), "[::1]:8080"),
        ("http://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/",
         ServerOrigin("xn--bcher-kva.example", 80, False), "xn--bcher-kva.example"),
    ],
)  # fmt: skip
def test_a_url_names_its_origin(url: str, origin: ServerOrigin, host: str) -> None:
    assert plan_of(HttpTarget(url)).origin == origin
    assert f"host: {host}" in lines(HttpTarget(url), {}, b"{}")


def test_a_target_may_have_its_own_headers_in_any_case() -> None:
    own = {"User-Agent": "me", "X-A": "1", "x-a": "2", "X-Request-Id": "mine"}
    target = HttpTarget("http://a.example/", headers=own)
    found = lines(target, {**plan_of(target).own}, b"{}")
    assert [line for line in found if line.lower().startswith(("user-agent", "x-"))] == [
        "User-Agent: me", "x-a: 2", "x-request-id: mine",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "length"),
    [("GET", None), ("DELETE", "content-length: 0"), ("POST", "content-length: 0")],
)
def test_without_a_body_only_get_says_nothing_of_its_length(
    method: str, length: str | None
) -> None:
    found = lines(HttpTarget("http://a.example/", method), {}, b"")
    assert [line for line in found if "length" in line] == ([] if length is None else [length])


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\rb", "a\0b"])
def test_a_header_cannot_end_its_line(value: str) -> None:
    with pytest.raises(ValueError, match="end of a line"):
        request_of(plan_of(HttpTarget("http://a.example/")), {"webhook-id": value}, b"{}")


@pytest.mark.parametrize(
    "target",
    [
        HttpTarget("ftp://a.example/"),
        HttpTarget("http://a.example/ b"),
        HttpTarget("http://a.example/", "TRACE"),
        HttpTarget("http://a.example/", headers={"host": "b"}),
        HttpTarget("http://a.example/", headers={"x": "a\r\nb"}),
        HttpTarget("http://u:p@a.example/"),
    ],
)
def test_what_was_stored_under_other_rules_is_not_called(target: HttpTarget) -> None:
    with pytest.raises(ValueError, match=r"url|method|header"):
        plan_of(target)


@pytest.mark.parametrize("name", ["Expect", "expect"])
def test_nobody_is_asked_whether_the_body_may_come(name: str) -> None:
    """It is sent at once."""
    target = HttpTarget("http://a.example/", headers={name: "100-continue", "x-a": "1"})
    found = [line.lower() for line in lines(target, {}, b"{}")]
    assert "x-a: 1" in found
    assert not [line for line in found if line.startswith("expect")]


def test_a_plan_is_made_once() -> None:
    target = HttpTarget("http://once.example/", headers={"x-a": "1"})
    assert plan_of(target) is plan_of(HttpTarget(target.url, headers={"x-a": "1"}))


@pytest.mark.parametrize(
    "target",
    [
        HttpTarget("http://large.example/", headers={"x": "y" * 5000}),
        HttpTarget("http://large.example/" + "\N{GRINNING FACE}" * 1000),
        HttpTarget("http://large.example/", headers={"x": "\N{GRINNING FACE}" * 1000}),
        HttpTarget("http://large.example/", headers={"x" * n: "" for n in range(1, 64)}),
    ],
    ids=["long", "encoded", "wide", "many"],
)
def test_plans_of_large_targets_are_not_kept(target: HttpTarget) -> None:
    assert plan_of(target) is not plan_of(target)


def test_only_so_many_plans_are_kept_those_used_last() -> None:
    often = HttpTarget("http://often.example/")
    kept = plan_of(often)
    once = plan_of(HttpTarget("http://seldom.example/"))
    for number in range(request.MOST_PLANS + 10):
        plan_of(HttpTarget(f"http://many.example/{number}"))
        if number % 1000 == 0:
            assert plan_of(often) is kept
    assert plan_of(HttpTarget("http://seldom.example/")) is not once
    assert len(request._plans) == request.MOST_PLANS
