"""Authentication: from the header `Authorization` to the requester."""

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING

import structlog

from gnomon.access.api_key import PREFIX
from gnomon.access.principal import Principal, Requester
from gnomon.api.auth.key_cache import KeyRing, Recognition
from gnomon.clock import Clock
from gnomon.model.errors import Unauthenticated
from gnomon.settings import AuthSettings
from gnomon.store.postgres.identity.api_keys import PostgresKeys
from gnomon.store.tenant_cache import TenantCache

if TYPE_CHECKING:
    from gnomon.api.auth.tokens import Tokens

_SCHEME = "bearer"
_FIRST_KEY = "gnomon keys create --name first --role admin"

log = structlog.get_logger("gnomon.api")


class TrustedCaller:
    """Takes every request for one of `by`: of a process that calls its own application, and can
    reach the database anyway."""

    def __init__(self, by: Principal) -> None:
        self._by = by

    async def requester(self, _header: str | None) -> Requester:
        return self._by

    def recognise(self, _header: str | None) -> tuple[Recognition, Hashable]:
        return Recognition.GOOD, None

    async def run(self) -> None:
        await asyncio.Event().wait()


class Authenticator:
    """Recognises keys and, where they are configured, tokens. Needs `run` to be running."""

    def __init__(self, keys: KeyRing, tokens: "Tokens | None") -> None:
        self._keys = keys
        self._tokens = tokens

    async def requester(self, header: str | None) -> Requester:
        """The sender of this `Authorization`. Raises Unauthenticated, StoreUnavailable."""
        credentials = _credentials(header)
        if credentials is None:
            raise Unauthenticated(given=False)
        requester = None
        if credentials.startswith(PREFIX):
            requester = await self._keys.requester(credentials)
        elif self._tokens is not None:
            requester = await self._tokens.requester(credentials)
        if requester is None:
            raise Unauthenticated(given=True)
        return requester

    def recognise(self, header: str | None) -> tuple[Recognition, Hashable]:
        """What is known of this `Authorization` without a lookup, and the holder of a good one."""
        credentials = _credentials(header)
        if credentials is None:
            return Recognition.WRONG, None
        if credentials.startswith(PREFIX):
            return self._keys.recognise(credentials)
        if self._tokens is None:
            return Recognition.WRONG, None
        holder = self._tokens.holder(credentials)
        return Recognition.UNKNOWN if holder is None else Recognition.GOOD, holder

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keys.run())
            if self._tokens is not None:
                group.create_task(self._tokens.run())


def _credentials(header: str | None) -> str | None:
    scheme, _, credentials = (header or "").partition(" ")
    return (credentials.strip() or None) if scheme.lower() == _SCHEME else None


async def authenticator_of(
    settings: AuthSettings, keys: PostgresKeys, directory: TenantCache, clock: Clock
) -> Authenticator | None:
    """The authenticator of these settings; None where authentication is off. Raises
    SettingsError."""
    if not settings.enabled:
        return None
    # Most servers have no use for the cryptography of tokens, which takes long to import.
    from gnomon.api.auth.tokens import tokens_of

    tokens = tokens_of(settings, directory, clock)
    if tokens is None and not await keys.any():
        log.warning("there is no API key yet", make_one=_FIRST_KEY)
    return Authenticator(KeyRing(keys, clock), tokens)
