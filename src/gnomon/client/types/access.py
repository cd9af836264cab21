"""API keys and webhook secrets."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.access.principal import Role
from gnomon.access.webhook_secret import Scheme
from gnomon.client.types import Spec


class KeySpec(Spec, kw_only=True):
    """An API key to create."""

    name: str
    roles: Sequence[Role]
    task_types: Sequence[str] | None = None
    queues: Sequence[str] | None = None  # that a remote worker with it may serve
    functions: Sequence[str] | None = None
    hosts: Sequence[str] | None = None
    expires_at: datetime | None = None


class OperatorKeySpec(Spec, kw_only=True):
    """An operator's API key to create."""

    name: str
    expires_at: datetime | None = None


class KeyInfo(msgspec.Struct, kw_only=True):
    """The record of a key; one without a tenant is an operator's."""

    key_id: UUID
    tenant_id: str | None
    name: str
    hint: str
    roles: list[Role]
    task_types: list[str] | None
    queues: list[str] | None = None
    functions: list[str] | None
    hosts: list[str] | None
    created_at: datetime
    created_by: str | None
    made_by: UUID | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKeyInfo(KeyInfo, kw_only=True):
    """A new key. `key` is shown here, and never again."""

    key: str


class WebhookSecretSpec(Spec, kw_only=True):
    """A webhook secret to create, for one host or for all others."""

    host: str | None = None
    scheme: Scheme | None = None
    secret: str | None = None
    overlap_seconds: float | None = None


class WebhookSecretInfo(msgspec.Struct, kw_only=True):
    """The record of a webhook secret. `secret` is null in lists, of v1a, and where it has ended."""

    secret_id: UUID
    tenant_id: str
    host: str | None
    scheme: Scheme
    public_key: str | None
    created_at: datetime
    created_by: str | None
    shared_until: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    secret: str | None = None


class WebhookKeyInfo(msgspec.Struct, kw_only=True):
    """A public key of v1a signatures."""

    key_id: UUID
    public_key: str
    expires_at: datetime | None
