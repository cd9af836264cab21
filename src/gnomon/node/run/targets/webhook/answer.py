"""Answers to webhooks, read from the bytes of a connection. Pure: bytes in, an answer out.

The bytes are those of a stranger. llhttp parses them (the parser of Node.js, by httptools); here is
what is kept of them, and how much of everything is read before it is enough.
"""

import re
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gnomon.model.text import storable
from gnomon.node.run.targets.webhook.body import READ_BYTES, KeptBody

MOST_HEADERS = 128
MOST_HEADER_BYTES = 16 * 1024  # of one, and of the words after the status
MOST_HEAD_BYTES = 256 * 1024  # of all together, and of the answers 1xx before it
MOST_BYTES = 1024 * 1024  # of an answer with all that is no body, such as the sizes of chunks
_MOST_REASON_CHARACTERS = 100
_SWITCHING = 101  # the one 1xx that no other answer follows
_ENDS = re.compile(rb"[\x00\r\n]")
# Those that matter. Of several with one name the first counts.
_KEPT = frozenset((b"content-encoding", b"retry-after", b"gnomon-snooze"))


class UnreadableAnswer(Exception):
    """Bytes that are no answer of HTTP, or one whose head is too long."""


class HttpAnswer(NamedTuple):
    """A status, and what is kept of the rest."""

    status: int
    reason: str  # the words after the status: whatever bytes they are, in a bounded line
    headers: dict[str, str]  # by their names in small letters, and only those that matter
    body: str | None


class AnswerReader:
    """Reads the answers of one connection, one after the other: `feed` it until an answer
    `is_over`, then `expect` the next."""

    __slots__ = (
        "_body", "_by_length", "_bytes", "_complete", "_count", "_cut_off", "_enough", "_excess",
        "_fault", "_headers", "_interim", "_keep_alive", "_parser", "_reason", "_silent", "status",
    )  # fmt: skip

    def __init__(self) -> None:
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # Answers of sloppy servers that every client takes: ends of lines without CR, odd bytes in
        # headers. Nothing that moves the border between one answer and the next: a connection
        # serves the calls of one guard to one origin, and what follows an answer closes it.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.expect()

    def expect(self) -> None:
        """Be ready for the next answer."""
        self.status = 0  # until the head has come
        self._reason = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: KeptBody | None = None  # until there is some
        self._fault = ""  # that was found here, not by the parser
        self._count = self._bytes = 0
        self._silent = 0  # bytes since the parser last told of something
        self._by_length = False  # or by chunks: its end is known; else it ends with the connection
        self._keep_alive = self._interim = False
        self._complete = self._enough = self._cut_off = self._excess = False

    @property
    def is_over(self) -> bool:
        """Whether no more of the answer is waited for."""
        return self._complete or self._enough or self._cut_off

    @property
    def is_clean(self) -> bool:
        """Whether another answer may follow on this connection: this one has come to its end, and
        nothing after it."""
        return self._complete and self._keep_alive and not self._excess

    def feed(self, data: bytes) -> None:
        """Raises UnreadableAnswer. Once the status has come, it decides: what is wrong after it
        only cuts off the body."""
        assert self._parser is not None, "the connection has not ended"
        self._silent += len(data)
        before = self._silent
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._complete, self._keep_alive = True, False
        except HttpParserError as error:
            self._excess = True
            self._stop(self._fault or " ".join(str(error).split()))
        if not self._complete:
            self._bytes += len(data)
            if self._silent == before > MOST_HEADER_BYTES:  # the parser gathers them
                self._stop(f"one of its lines is longer than {MOST_HEADER_BYTES} bytes")
            if self._bytes > (MOST_BYTES if self.status else MOST_HEAD_BYTES):
                self._stop(f"its head is longer than {MOST_HEAD_BYTES} bytes")

    def _stop(self, why: str) -> None:
        """Read no more of it, because of this."""
        if not self.status:
            raise UnreadableAnswer(why) from None
        self._cut_off = not self._complete

    def end(self, *, clean: bool) -> bool:
        """The connection has ended, by the other side's word or not. Gives whether there is an
        answer."""
        if self.status and not self.is_over:
            self._complete = clean and not self._by_length
            self._cut_off = not self._complete
        self._keep_alive = False
        self._parser = None  # each of them refers to the other
        return self.status != 0

    def answer(self) -> HttpAnswer:
        """As far as it has come; it has a status."""
        cut_off = not self._complete and not self._enough
        body = self._kept() if self._body is None and cut_off else self._body
        return HttpAnswer(
            self.status,
            storable(_text(self._reason)[:_MOST_REASON_CHARACTERS]) if self._reason else "",
            {_text(name): _text(value) for name, value in self._headers.items()},
            None if body is None else body.text(cut_off=cut_off),
        )

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._complete:
            self._excess = True

    def on_status(self, words: bytes) -> None:
        if not self._complete:
            self._silent = 0
            self._reason += words
            if len(self._reason) > MOST_HEADER_BYTES:
                self._refuse(f"its first line is longer than {MOST_HEADER_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._silent = 0
        self._count += 1
        if self._count > MOST_HEADERS:
            self._refuse(f"it has more than {MOST_HEADERS} headers")
        if len(name) + len(value) > MOST_HEADER_BYTES:
            self._refuse(f"one of its headers is longer than {MOST_HEADER_BYTES} bytes")
        if _ENDS.search(value) is not None:  # which the leniency for odd bytes lets pass
            self._refuse("one of its headers holds NUL or the end of a line")
        if self.status:
            return  # behind the body, or of an answer that nobody asked for
        name = name.lower()
        if name in _KEPT:
            self._headers.setdefault(name, value.rstrip(b" \t"))
        elif name == b"content-length":
            self._by_length = True
        elif name == b"transfer-encoding":
            self._by_length = value.lower().rstrip(b" \t").endswith(b"chunked")

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.status or parser is None:
            return
        status = parser.get_status_code()
        if status < 100:
            self._refuse(f"its status is {status}")
        if status < 200 and status != _SWITCHING:
            self._interim = True
        else:
            self.status = status
            self._keep_alive = status != _SWITCHING and parser.should_keep_alive()

    def on_body(self, chunk: bytes) -> None:
        if self._complete or self._interim:
            return
        self._silent = 0
        if self._body is None:
            self._body = self._kept()
        self._body.add(chunk)
        if self._body.read > READ_BYTES:
            self._enough = True

    def on_message_complete(self) -> None:
        if not self._interim:
            self._complete = True
            return
        self._interim = self._by_length = False
        self._reason = b""
        self._headers = {}
        self._count = 0

    def _kept(self) -> KeptBody:
        return KeptBody(_text(self._headers.get(b"content-encoding", b"")).strip().lower())

    def _refuse(self, why: str) -> None:
        self._fault = why
        raise ValueError(why)


def _text(words: bytes) -> str:
    return words.decode("utf-8", "surrogateescape")
