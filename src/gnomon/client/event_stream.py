"""The stream of events, without I/O: what to ask for, how to read it, and when to ask again."""

from typing import Any

import msgspec

from gnomon.client.call import Call
from gnomon.client.errors import ApiUnreachable, RateLimited, Unavailable
from gnomon.client.exchange import NoReply, Reply, Rules, content_of

SILENCE_SECONDS = 45.0  # after which a stream is cut off: the API says something every 15
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.2, 5.0


class EventStreamReader:
    """One stream over any number of connections. Each begins where the one before it stopped."""

    def __init__(self, call: Call[Any], rules: Rules) -> None:
        self.location = call.location
        self._rules = rules
        self._kind: Any = Any if rules.documents else call.answer
        self._last: str | None = None
        self._id: str | None = None
        self._data: list[str] = []
        self._failures = 0

    @property
    def headers(self) -> dict[str, str]:
        last = {} if self._last is None else {"Last-Event-ID": self._last}
        return {"Accept": "text/event-stream", **last}

    def begin(self) -> None:
        """A connection was made; half an event of the one before is told again."""
        self._id, self._data = None, []

    def event(self, line: str) -> Any:
        """The event that a line ends; None: there is none yet. What was returned once is not asked
        for again."""
        self._failures = 0
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        if self._id is not None:
            self._last = self._id
        data, self._data, self._id = self._data, [], None
        return msgspec.json.decode("\n".join(data), type=self._kind) if data else None

    def pause(self, ended: Reply | NoReply | None) -> float:
        """The seconds to wait before the next connection. Raises ApiUnreachable where there never
        was one, ApiProblem where asking again is of no use, as where events are not kept any
        more."""
        self._failures += 1
        known = self._last is not None or self._failures <= self._rules.retries
        asked = 0.0
        if isinstance(ended, NoReply) and not known:
            raise ApiUnreachable(self._rules.url, ended.reason, self._rules.advice)
        if isinstance(ended, Reply):
            try:
                content_of(ended)
            except (RateLimited, Unavailable):
                if not known:
                    raise
                asked = ended.retry_after or 0.0
        backoff = min(_FIRST_BACKOFF * 2.0 ** min(self._failures, 10), _LONGEST_BACKOFF)
        seconds: float = asked + backoff * (0.5 + self._rules.chance() / 2)
        return seconds
