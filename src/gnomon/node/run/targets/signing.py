"""Signs webhook calls with the secrets of the tenant whose calls they are."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote

import structlog

from gnomon.access.webhook_secret import (
    Sign,
    SigningSecret,
    changes_at,
    chosen,
    content_of,
    host_in,
    signatures,
    signer,
)
from gnomon.clock import Clock
from gnomon.model.errors import GnomonError, StoreError
from gnomon.model.remembered import remembered
from gnomon.store.tenant_cache import TenantCache

log = structlog.get_logger("gnomon.node.run")

_MOST_REMEMBERED = 10_000  # hosts are whatever tenants write
_AGAIN_SECONDS = 0.2
_NO_BODY = frozenset({"GET"})
_BODY_OPTIONAL = frozenset({"DELETE"})


def request_body(method: str, payload: bytes | None) -> bytes:
    """The bytes that are sent, and signed. Where a body is expected, no payload is JSON's null:
    an empty body is no JSON, and the reference libraries fail on it."""
    if method in _NO_BODY:
        return b""
    return payload or (b"" if method in _BODY_OPTIONAL else b"null")


@remembered
def header_text(text: str) -> str:
    """A tenant or task type in a header. Those of plain SQL can be any text; names stay as they
    are."""
    return quote(text, safe="")


class Unsigned(GnomonError):
    """A call that should be signed, and cannot be."""


class _Choice(NamedTuple):
    signers: Sequence[Sign]
    until: datetime | None  # when it must be made again


class Signatory:
    """Remembers who signs the calls of a tenant to a host, until the directory changes. A tenant
    that it does not know must be learned before each call."""

    def __init__(self, directory: TenantCache, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._choices: dict[tuple[str, str], _Choice] = {}
        self._without: set[str] = set()  # tenants that were looked up, and have no row
        directory.on_change(self._forget)

    def knows(self, tenant_id: str) -> bool:
        return bool(self._directory.secrets(tenant_id))

    async def learn(self, tenant_id: str) -> None:
        """Look for a tenant's secrets: it may have been made a moment ago. Goes on until PostgreSQL
        answers, also where it refuses; whoever waits gives up by itself."""
        while True:
            try:
                await self._directory.look_again()
                break
            except StoreError:  # the node tells of it: it looks as well, all the time
                await self._clock.sleep(_AGAIN_SECONDS)
        if not self._directory.knows(tenant_id):
            if len(self._without) >= _MOST_REMEMBERED:
                self._without.clear()
            self._without.add(tenant_id)

    def sign(
        self, tenant_id: str, url: str, message_id: str, timestamp: str, body: bytes
    ) -> str | None:
        """The header `webhook-signature`. None: the tenant has no row, hence no secrets. Raises
        Unsigned."""
        key = (tenant_id, host_in(url))
        choice = self._choices.get(key)
        if choice is None or (choice.until is not None and self._clock.now() >= choice.until):
            choice = self._choose(key)
        if choice.signers:
            return signatures(choice.signers, content_of(message_id, timestamp, body))
        if tenant_id in self._without:
            return None
        raise Unsigned("no webhook secret of its tenant is known that can be used")

    def _forget(self) -> None:
        """Tenants that still have no row stay: their calls may be under way to be signed."""
        self._choices.clear()
        self._without = {each for each in self._without if not self._directory.knows(each)}

    def _choose(self, key: tuple[str, str]) -> _Choice:
        tenant_id, host = key
        now = self._clock.now()
        secrets = self._directory.secrets(tenant_id)
        signers = [_signer(tenant_id, each) for each in chosen(secrets, host, now)]
        choice = _Choice([sign for sign in signers if sign is not None], changes_at(secrets, now))
        if len(self._choices) >= _MOST_REMEMBERED:
            self._choices.clear()
        self._choices[key] = choice
        return choice


def _signer(tenant_id: str, secret: SigningSecret) -> Sign | None:
    try:
        return signer(secret.scheme, secret.secret)
    except ValueError as error:  # written by hand
        log.warning(
            "webhook secret cannot be used", tenant=tenant_id, secret_id=secret.id, why=str(error)
        )
        return None
