"""Correlation ids and W3C Trace Context: what is kept, and what is ignored."""

from uuid import UUID

import msgspec
import pytest

from gnomon.model.tasks.origin import (
    MOST_STATE_CHARACTERS,
    Origin,
    TraceContext,
    correlation_id_of,
    is_correlation_id,
    is_unsampled,
    origin_of,
    sampled,
)
from gnomon.store.postgres.rows import origin_of as origin_of_row
from gnomon.store.postgres.rows import stored_origin

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("flags", ["01", "03", "ff"])
def test_a_sampled_trace_is_continued(flags: str) -> None:
    assert sampled(f"00-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN)


def test_parts_that_a_later_version_adds_are_ignored() -> None:
    assert sampled(f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be") == TraceContext(TRACE, SPAN)
    assert sampled(f"cc-{TRACE}-{SPAN}-01") == TraceContext(TRACE, SPAN)
    assert sampled(f"cc-{TRACE}-{SPAN}-01.what") is None


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "garbage",
        f"ff-{TRACE}-{SPAN}-01",  # the version that is none
        f"00-{TRACE}-{SPAN}-01-more",  # version 00 has four parts
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE}-{SPAN}-01\n",
        f" {PARENT}",
        PARENT.replace("-", "_"),
        f"00-{chr(0x660) * 32}-{SPAN}-01",  # digits, but none of these
    ],
)
def test_a_malformed_traceparent_is_ignored(malformed: str) -> None:
    assert sampled(malformed) is None


def test_a_trace_that_is_not_sampled_is_not_kept() -> None:
    unsampled = f"00-{TRACE}-{SPAN}-00"
    assert sampled(unsampled) is None
    assert is_unsampled(unsampled)
    assert not is_unsampled(PARENT)
    assert not is_unsampled(None)
    assert origin_of(None, sampled(unsampled)) is None


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (" rojo=1 ,\t,congo=2", "rojo=1,congo=2"),
        ("t@vendor=x", "t@vendor=x"),
        ("", None),
        ("Rojo=1", None),
        ("rojo", None),
        ("rojo=", None),
        ("rojo=1\r\nx: y", None),
        (",".join(f"k{n}=1" for n in range(33)), None),
    ],
)
def test_a_tracestate_is_passed_on_as_it_is_or_not_at_all(header: str, kept: str | None) -> None:
    assert sampled(PARENT, header) == TraceContext(TRACE, SPAN, kept)


def test_a_long_tracestate_keeps_its_first_members() -> None:
    members = [f"k{n}={'x' * 100}" for n in range(10)]
    trace = sampled(PARENT, ",".join(members))
    assert trace is not None
    assert trace.state is not None
    assert len(trace.state) <= MOST_STATE_CHARACTERS
    assert trace.state.split(",") == members[:4]


def test_an_origin_gives_back_its_trace() -> None:
    trace = TraceContext(TRACE, SPAN, "a=1")
    origin = origin_of("order-7", trace)
    assert origin == Origin("order-7", PARENT, "a=1")
    assert origin.trace == trace


@pytest.mark.parametrize("text", ["a", "order-7", "x" * 128, "a:b/c=d"])
def test_correlation_ids(text: str) -> None:
    assert is_correlation_id(text)


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "a\n", "a\r\nset-cookie: x", "ü", "\x00"])
def test_what_is_no_correlation_id(text: str) -> None:
    assert not is_correlation_id(text)


def test_a_task_without_one_is_correlated_by_its_own_id() -> None:
    task_id = UUID(int=7)
    assert correlation_id_of(None, task_id) == str(task_id)
    assert correlation_id_of(Origin(traceparent=PARENT), task_id) == str(task_id)
    assert correlation_id_of(Origin("order-7"), task_id) == "order-7"


@pytest.mark.parametrize("given", ["a\r\nX-Evil: 1", "", "x" * 129, "with space"])
def test_a_correlation_id_that_plain_sql_has_stored_is_checked_when_it_is_read(given: str) -> None:
    assert origin_of_row(msgspec.json.encode({"correlation_id": given}).decode()) is None


def test_a_stored_origin_is_read_as_it_was() -> None:
    origin = Origin("order-7", PARENT, "a=1")
    assert origin_of_row(stored_origin(origin)) == origin
