"""Idempotency of HTTP requests: keys, fingerprints, and answers that are replayed."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, header_of, principal_of, tenant_of
from gnomon.api.http.answers.problems import RequestError
from gnomon.api.http.document.operation import JSON, operation_of
from gnomon.api.http.requests.reading import decoded, read_body
from gnomon.model.errors import InvalidTask
from gnomon.model.meaning import meaning_of
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.tasks import Once
from gnomon.store.postgres.tasks.changing import PostgresTaskChange

_B = TypeVar("_B", bound=msgspec.Struct)
HEADER = b"idempotency-key"
MOST_KEY_CHARACTERS = 255


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request, as it is kept with the key to be replayed."""

    status: int
    body: msgspec.Raw


class _Made(msgspec.Struct):
    created_by: str | None = None


_AGAIN = {"Idempotency-Replayed": "true"}
_MEDIA_TYPE = (b"content-type", JSON.encode())
_answer = msgspec.json.Decoder(Answer)
_made = msgspec.json.Decoder(_Made)


def answer(status: int, body: object = None) -> Answer:
    return Answer(status, msgspec.Raw(msgspec.json.encode(body)))


def kept(found: Answer) -> bytes:
    return msgspec.json.encode(found)


def replayed(text: bytes) -> Answer:
    return _answer.decode(text)


def respond(
    found: Answer, *, again: bool = False, headers: dict[str, str] | None = None
) -> ASGIResponse:
    """The response for an answer; `again`: it is a replay."""
    return _Ready(found, _AGAIN if again else headers)


class _Ready(ASGIResponse):
    """A response that is complete when it is made. Litestar's own builds a mapping of headers,
    which costs a good part of what all our work on a request does."""

    def __init__(self, found: Answer, headers: dict[str, str] | None) -> None:
        self.status_code = found.status
        self.body = b"" if found.status == 204 else bytes(found.body)
        self._sent = [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        if found.status != 204:
            self._sent += [_MEDIA_TYPE, (b"content-length", b"%d" % len(self.body))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self._sent}
        )
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def key_of(request: Request, in_body: str | None = None) -> str | None:
    """The key in the header, quoted or not, or that in the body."""
    header = header_of(request, HEADER)
    if header is None:
        return in_body
    key = header.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 1 <= len(key) <= MOST_KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        raise InvalidTask(
            f"the header Idempotency-Key must be 1 to {MOST_KEY_CHARACTERS} printable characters"
        )
    if in_body is not None and in_body != key:
        raise InvalidTask("is not the key in the header; give one of them", "/idempotency_key")
    return key


def once_of(key: str, method: str, path: str, body: bytes) -> Once:
    """The key, with the fingerprint of its request. Raises RequestError where that is not UTF-8."""
    try:
        text = "\n".join((method, path, _canonical(body)))
    except UnicodeDecodeError as error:  # in a value that msgspec has skipped
        raise RequestError(400, f"the body is not UTF-8: {error.reason}") from error
    return Once(key, hashlib.sha256(text.encode()).digest())


def repeated(key: str | None, method: str, path: str, body: bytes) -> Once | None:
    """The same for a request that may not have been checked yet; None where it has no key, or holds
    text that is never accepted."""
    if key is None or "\0" in key:
        return None
    try:
        return once_of(key, method, path, body)
    except RequestError:
        return None


async def changed(
    request: Request,
    body: bytes,
    act: Callable[[PostgresTaskChange], Awaitable[Answer]],
    headers: dict[str, str] | None = None,
) -> ASGIResponse:
    """Runs `act` in a transaction, once for each key. It may fill in `headers` meanwhile."""
    context, key = context_of(request), key_of(request)
    once = None if key is None else once_of(key, request.method, request.scope["path"], body)
    async with context.store.change(tenant_of(request), once) as change:
        again = change.replay is not None
        if change.replay is not None:
            found = replayed(change.replay)
        else:
            found = await act(change)
            change.answer = kept(found)
    return respond(shown(request, found, again=again), again=again, headers=headers)


async def changed_by(
    request: Request,
    kind: type[_B],
    act: Callable[[PostgresTaskChange, _B], Awaitable[Answer]],
) -> ASGIResponse:
    """The same for a request with a small body of this kind."""
    body = await read_body(request, OVERHEAD_BYTES)
    asked = decoded(body, kind)

    async def act_on(change: PostgresTaskChange) -> Answer:
        return await act(change, asked)

    return await changed(request, body, act_on)


def shown(request: Request, found: Answer, *, again: bool = False) -> Answer:
    """The answer for the caller. One who may not read sees only what they sent themselves, and the
    id of the result; a replayed answer may be another's."""
    by, operation = principal_of(request), operation_of(request.scope["route_handler"])
    if operation is None or operation.receipt is None or by.may(Role.READ):
        return found
    if operation.echoes and not (again and _maker(found) != by.name):
        return found
    return answer(found.status, msgspec.json.decode(found.body, type=operation.receipt))


def _maker(found: Answer) -> str | None:
    return _made.decode(found.body).created_by


def _canonical(body: bytes) -> str:
    """The same text for all bodies that mean the same."""
    if not body:
        return "{}"
    value = meaning_of(body)
    if isinstance(value, dict):
        # A key in the header is not part of the body either, and who repeats a request may give it
        # another correlation id.
        value.pop("idempotency_key", None)
        value.pop("correlation_id", None)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
