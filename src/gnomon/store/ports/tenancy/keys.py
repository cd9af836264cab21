"""Values of the API key store.

Only hashes are stored. The store's own clock decides whether a key has expired. The owner of a key
is a tenant, or None: the operators of the installation.
"""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.access.api_key import ApiKey
from gnomon.access.principal import Role
from gnomon.model.targets.allow_list import EVERYTHING, AllowList


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key about to be stored."""

    id: UUID
    tenant_id: str | None  # None: an operator's
    name: str
    hash: bytes
    hint: str
    roles: frozenset[Role]
    task_types: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    allow: AllowList = EVERYTHING
    expires_at: datetime | None = None
    created_by: str | None = None


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """The new values of a rotated key; it inherits the others."""

    id: UUID
    hash: bytes
    hint: str
    created_by: str | None = None


class ApiKeyPage(msgspec.Struct, frozen=True):
    """A page of keys, newest first."""

    keys: list[ApiKey]
    next_cursor: UUID | None
