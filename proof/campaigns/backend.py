"""What a connection to PostgreSQL says, as far as the proxy must know it: where its messages begin
and end, what was asked, and which answer is the word that something was committed.

Protocol version 3, read as it comes, in pieces of any size.
"""

import re
import struct
from collections.abc import Iterator

_WRITES = re.compile(rb"\b(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_LENGTH = struct.Struct("!I")
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
# An answer begins with one of these. What comes before (what a statement looks like) must pass
# at once: the client waits for it before it asks on.
_BEGINS_ANSWER = frozenset(b"2DCI")


class Messages:
    """Cuts a stream into messages (kind, whole text)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        while len(self._buffer) >= 5:
            size = 1 + _LENGTH.unpack_from(self._buffer, 1)[0]
            if len(self._buffer) < size:
                return
            whole = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield whole[0], whole


class Asked:
    """The client's side: which statements the answers that come next are about."""

    def __init__(self) -> None:
        self.statements: list[bytes] = []  # since the connection was last idle
        self.unframed = 0  # answers of one byte that the server owes: to "may we encrypt?"
        self._messages = Messages()
        self._named: dict[bytes, bytes] = {}
        self._opening = bytearray()
        self._opened = False

    def feed(self, data: bytes) -> None:
        if not self._opened:
            data = self._open(data)
        for kind, whole in self._messages.feed(data):
            if kind == ord("P"):
                name, text = whole[5:].split(b"\0", 2)[:2]
                self._named[name] = text
            elif kind == ord("B"):
                name = whole[5:].split(b"\0", 2)[1]
                self.statements.append(self._named.get(name, b""))
            elif kind == ord("Q"):
                self.statements.append(whole[5:])

    def _open(self, data: bytes) -> bytes:
        """The first messages have no kind. Gives what came after them."""
        self._opening += data
        while len(self._opening) >= 8:
            size, code = struct.unpack_from("!II", self._opening)
            if len(self._opening) < size:
                break
            del self._opening[:size]
            if code in (_SSL, _GSS):
                self.unframed += 1
                continue
            self._opened = code != _CANCEL
            rest, self._opening = bytes(self._opening), bytearray()
            return rest
        return b""

    @property
    def writes(self) -> bool:
        """A statement that is a SELECT to its end may write on its way."""
        return any(_WRITES.search(text) for text in self.statements)


class Answers:
    """The server's side: which pieces may pass, and which are the word of a commit."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._messages = Messages()
        self._answer = bytearray()  # of a statement, until the server is ready for the next
        self._acknowledges = False

    def feed(self, data: bytes) -> Iterator[tuple[bytes, list[bytes] | None]]:
        """Pieces to pass on, in order; with each the statements whose commit it tells, if it
        does."""
        while self._asked.unframed and data:
            self._asked.unframed -= 1
            yield data[:1], None
            data = data[1:]
        for kind, whole in self._messages.feed(data):
            if kind == ord("Z"):
                yield self._ended(whole)
            elif self._answer or kind in _BEGINS_ANSWER:
                self._answer += whole
                self._look_at(kind, whole)
            else:
                yield whole, None

    def _look_at(self, kind: int, whole: bytes) -> None:
        if kind == ord("E"):
            self._acknowledges = False
        elif kind == ord("C"):
            verb, *rest = whole[5:-1].split(b" ")
            some = bool(rest) and rest[-1] != b"0"
            written = verb != b"SELECT" or self._asked.writes
            if verb == b"COMMIT":
                self._acknowledges = self._asked.writes
            elif verb in (b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"SELECT"):
                self._acknowledges = some and written

    def _ended(self, ready: bytes) -> tuple[bytes, list[bytes] | None]:
        piece = bytes(self._answer) + ready
        self._answer.clear()
        told = None
        if ready[5:6] == b"I":
            told = self._asked.statements if self._acknowledges else None
            self._asked.statements = []
        self._acknowledges = False
        return piece, told
