"""What is asked of the store about API keys: the contract that every store keeps.

Only hashes are kept. The store's own clock decides whether a key has expired.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.access.api_key import ApiKey
from gnomon.access.principal import Principal, Role
from gnomon.model.allow_list import EVERYTHING, AllowList


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key about to be kept."""

    id: UUID
    tenant_id: str
    name: str
    hash: bytes
    hint: str
    roles: frozenset[Role]
    task_types: frozenset[str] | None = None
    allow: AllowList = EVERYTHING
    expires_at: datetime | None = None
    created_by: str | None = None


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """What a rotated key gets in its place; the rest it hands down."""

    id: UUID
    hash: bytes
    hint: str
    created_by: str | None = None


class ApiKeyPage(msgspec.Struct, frozen=True):
    """Newest first."""

    keys: list[ApiKey]
    next_cursor: UUID | None


class KeyLookup(Protocol):
    """What the API asks at every door."""

    async def find(self, hashes: Sequence[bytes]) -> dict[bytes, ApiKey]:
        """The live keys among these, by their hash."""

    async def any(self) -> bool:
        """Whether there is a live key at all."""

    async def note_use(self, ids: Sequence[UUID]) -> None:
        """Write down that these were used just now."""


class KeyStore(KeyLookup, Protocol):
    """What is asked on behalf of a tenant. An unknown id raises KeyNotFound."""

    async def list(self, tenant_id: str, cursor: UUID | None, limit: int) -> ApiKeyPage:
        """Keys older than `cursor`, live and ended."""

    async def get(self, tenant_id: str, key_id: UUID) -> ApiKey:
        """One of them."""

    async def create(self, new: NewKey, by: Principal | None = None) -> ApiKey:
        """Keep a key, which ends no later than whoever makes it; None: the operator. Raises
        TooManyKeys, KeyRingFull, TenantNotFound, KeyForbidden, Unauthenticated where the maker
        has ended."""

    async def rotate(
        self,
        tenant_id: str,
        key_id: UUID,
        replacement: Replacement,
        overlap_seconds: float,
        by: Principal | None = None,
    ) -> ApiKey:
        """Make a second key like this one, with as long a life as whoever asks can give, and let
        this one end after the overlap. Gives the new one. Raises TooManyKeys, KeyEnded,
        KeyForbidden, Unauthenticated where the maker has ended."""

    async def revoke(
        self, tenant_id: str, key_id: UUID, *, cascade: bool = False
    ) -> Sequence[UUID]:
        """End it at once; with `cascade` also the keys that were made with it, and with those.
        One that has ended stays as it is. Gives those that were ended."""
