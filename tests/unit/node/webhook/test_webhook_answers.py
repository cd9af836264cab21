"""Reading answers of webhooks from bytes, in whatever pieces they come, and whatever they are."""

import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gnomon.node.run.targets.webhook import answer as limits
from gnomon.node.run.targets.webhook.answer import AnswerReader, HttpAnswer, UnreadableAnswer
from gnomon.node.run.targets.webhook.body import KEPT_BODY_BYTES, READ_BYTES

OK = b"HTTP/1.1 200 OK\r\n"
Read = tuple[HttpAnswer, bool]  # and whether another may follow


def read(pieces: list[bytes], *, ends: bool = True) -> Read | None:
    """The answer in these pieces; None: there is none."""
    reader = AnswerReader()
    for piece in pieces:
        if reader.is_over:
            return reader.answer(), False  # the connection is closed by what comes now
        try:
            reader.feed(piece)
        except UnreadableAnswer:
            return None
    clean = reader.is_clean
    if not reader.is_over:
        assert ends, "it is read to its end"
        if not reader.end(clean=True):
            return None
    return reader.answer(), clean


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(at)]


def chunked(body: bytes, sizes: list[int]) -> bytes:
    pieces = [piece for piece in cut(body, sizes) if piece]
    return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


words = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
places = st.lists(st.integers(0, 10_000), max_size=12)


@st.composite
def answers(draw: Any) -> tuple[bytes, int, str, dict[str, str], bytes, bool]:
    """A proper answer, with what is to be read of it."""
    status = draw(st.sampled_from([200, 201, 302, 400, 404, 425, 429, 500, 503]))
    reason, body = draw(words), draw(st.binary(max_size=300))
    kept = {"retry-after": draw(words), "gnomon-snooze": draw(words)} if draw(st.booleans()) else {}
    lines = {**kept, **{f"x-{n}": draw(words) for n in range(draw(st.integers(0, 3)))}}
    closes = draw(st.booleans())
    if closes:
        lines["connection"] = "close"
    framing = draw(st.sampled_from(["length", "chunks", "end"]))
    if framing == "length":
        lines["Content-Length"], sent = str(len(body)), body
    elif framing == "chunks":
        lines["Transfer-Encoding"], sent = "chunked", chunked(body, draw(places))
    else:
        sent = body
    interim = b"HTTP/1.1 103 Early\r\nretry-after: 99\r\n\r\n" * draw(st.integers(0, 2))
    head = f"HTTP/1.1 {status} {reason}\r\n" + "".join(f"{n}: {v}\r\n" for n, v in lines.items())
    raw = interim + head.encode() + b"\r\n" + sent
    return raw, status, reason, kept, body, not closes and framing != "end"


@given(answers(), places)
def test_an_answer_is_the_same_however_it_is_cut(
    given: tuple[bytes, int, str, dict[str, str], bytes, bool], places: list[int]
) -> None:
    raw, status, reason, kept, body, may_follow = given
    text = body.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}") or None
    assert read(cut(raw, places)) == (HttpAnswer(status, reason, kept, text), may_follow)


@given(answers(), answers(), st.integers(0, 1000))
def test_of_two_answers_the_second_is_never_taken_for_anything(
    first: tuple[bytes, int, str, dict[str, str], bytes, bool],
    second: tuple[bytes, int, str, dict[str, str], bytes, bool],
    place: int,
) -> None:
    if not first[-1]:
        return  # all that follows belongs to it, or to nobody
    raw = first[0] + second[0]
    at = min(len(first[0]) + place, len(raw) - 1) if place else len(raw)
    found = read([raw[:at], raw[at:]] if at < len(raw) else [raw])
    assert found is not None
    assert found[0].status == first[1]
    assert found[1] is False


@st.composite
def hostile(draw: Any) -> list[bytes]:
    """Bytes of any kind, or a proper answer with some of them changed."""
    if draw(st.booleans()):
        return draw(st.lists(st.binary(max_size=200), max_size=5))  # type: ignore[no-any-return]
    raw = bytearray(draw(answers())[0])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        odd = draw(
            st.sampled_from([b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"0", b"-", b"\r\n\r\n"])
        )
        raw[at : at + draw(st.integers(0, 3))] = odd
    return cut(bytes(raw), draw(places))


@given(hostile())
@example([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b"\r\n"])
@example([b"HTTP/1.1 101 Up\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nzzz"])
@example([b"HTTP/1.1 100 Continue\r\ncontent-length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"])
def test_whatever_comes_is_an_answer_or_none(pieces: list[bytes]) -> None:
    found = read(pieces)
    if found is not None:
        answer, _ = found
        assert 101 <= answer.status <= 999
        assert len((answer.body or "").encode()) <= 3 * KEPT_BODY_BYTES + 100
        assert "\0" not in (answer.body or "") + answer.reason
        assert len(answer.reason) <= 100


def test_of_several_headers_with_one_name_the_first_counts() -> None:
    raw = OK + b"Retry-After: 3\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n"
    found = read([raw])
    assert found is not None
    assert found[0].headers == {"retry-after": "3"}


def test_a_header_behind_the_body_does_not_count() -> None:
    raw = OK + b"transfer-encoding: chunked\r\n\r\n0\r\nretry-after: 9\r\n\r\n"
    found = read([raw])
    assert found == (HttpAnswer(200, "OK", {}, None), True)


def test_ends_of_lines_without_cr_and_blanks_around_values_are_taken() -> None:
    found = read([b"HTTP/1.1 503 Busy\nretry-after: \t7 \t\ncontent-length: 2\n\nno"])
    assert found == (HttpAnswer(503, "Busy", {"retry-after": "7"}, "no"), True)


@pytest.mark.parametrize(
    "head",
    [
        b"a: " + b"x" * limits.MOST_HEADER_BYTES + b"\r\n",
        b"x" * limits.MOST_HEADER_BYTES + b": a\r\n",
        b"a: b\r\n" * (limits.MOST_HEADERS + 1),
        b"a: b\0c\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: -1\r\n",
        b"no colon\r\n",
    ],
)
def test_a_head_that_is_none_is_refused(head: bytes) -> None:
    assert read([OK + head + b"\r\n"]) is None


def endless(begin: bytes, piece: bytes) -> int:
    """How many bytes of an answer that never ends are taken before it is enough."""
    reader = AnswerReader()
    reader.feed(begin)
    taken = len(begin)
    while taken < 10 * limits.MOST_BYTES:
        try:
            reader.feed(piece)
        except UnreadableAnswer:
            return taken
        taken += len(piece)
        if reader.is_over:
            assert not reader.is_clean
            return taken
    raise AssertionError("it is never enough")


@pytest.mark.parametrize(
    ("begin", "piece", "most"),
    [
        (OK, b"a: b\r\n", limits.MOST_HEAD_BYTES),
        (OK + b"a: ", b"x", limits.MOST_HEADER_BYTES),
        (OK + b"a", b"x", limits.MOST_HEADER_BYTES),
        (b"HTTP/1.1 200 ", b"x" * 100, limits.MOST_HEADER_BYTES),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", limits.MOST_HEAD_BYTES),
        (b"", b"\r\n" * 100, limits.MOST_HEADER_BYTES),
        (OK + b"\r\n", b"x" * 1000, READ_BYTES + 1000),
        (OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 7 * READ_BYTES),
        (OK + b"transfer-encoding: chunked\r\n\r\n1;", b"e" * 1000, limits.MOST_HEADER_BYTES),
        (OK + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"t: x\r\n", limits.MOST_BYTES),
        (OK + b"transfer-encoding: chunked\r\n\r\n0\r\nt: ", b"x", limits.MOST_HEADER_BYTES),
    ],
)
def test_an_answer_without_an_end_is_read_only_so_far(
    begin: bytes, piece: bytes, most: int
) -> None:
    assert endless(begin, piece) <= most + len(begin) + len(piece)
