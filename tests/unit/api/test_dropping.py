"""Which bodies are read only to be dropped."""

from typing import Any, cast

import pytest

from gnomon.api.http.bounds.bodies import SMALL_BYTES
from gnomon.api.http.bounds.dropping import DRAINED_BYTES, Dropping
from gnomon.api.http.bounds.refusals import DROPPED_A_SECOND, Refusals
from gnomon.clock import SystemClock

LARGE = (b"content-length", b"%d" % (SMALL_BYTES + 1))
CHUNKED = (b"transfer-encoding", b"chunked")
EXPECT = (b"expect", b"100-continue")


@pytest.mark.parametrize(
    ("headers", "dropped"),
    [
        ([LARGE], True),
        ([CHUNKED], True),
        ([], False),
        ([(b"content-length", b"%d" % SMALL_BYTES)], False),
        ([(b"content-length", b"%d" % (DRAINED_BYTES + 1))], False),
        ([(b"content-length", b"9" * 5_000)], False),
        ([(b"content-length", "\N{SUPERSCRIPT TWO}".encode("latin-1"))], False),
        # To read it would be to ask for it.
        ([EXPECT, LARGE], False),
        ([LARGE, EXPECT], False),
        ([EXPECT, CHUNKED], False),
        ([CHUNKED, EXPECT], False),
    ],
)
def test_a_body_that_was_sent_anyway_is_read_before_a_refusal(
    headers: list[tuple[bytes, bytes]], dropped: bool
) -> None:
    async def send(_: Any) -> None:
        raise AssertionError("nobody sends")

    scope = cast(Any, {"headers": headers})
    way = Dropping(cast(Any, None), cast(Any, None)).before_answer(scope, cast(Any, None), send)
    assert (way is not send) is dropped


def test_a_process_that_has_just_started_has_time_to_drop_bodies() -> None:
    made = Refusals(SystemClock())
    assert [made.may_drop(DROPPED_A_SECOND // 4) for _ in range(4)] == [True] * 4
    assert not made.may_drop(DROPPED_A_SECOND * 2) or not made.may_drop(1)
