"""Webhook secrets of a tenant: created, listed, shown, rotated and revoked."""

from uuid import UUID

import msgspec

from gnomon.access.grant_errors import LimitedKey
from gnomon.access.principal import Principal
from gnomon.access.webhook_secret import (
    ED25519_BYTES,
    Scheme,
    WebhookSecret,
    key_pair,
    normal_host,
    secret_bytes,
)
from gnomon.clock import Clock, new_id, new_secret
from gnomon.model.errors import InvalidTask
from gnomon.store.ports.tenancy.secrets import NewSecret, ReplacingSecret, ShownSecret
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

DEFAULT_OVERLAP = 24 * 3600.0
LONGEST_OVERLAP = 30 * 24 * 3600.0


class WantedSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret to be created."""

    host: str | None  # None: it signs calls to all hosts that have none of their own
    scheme: Scheme
    value: str | None  # None: one is made
    overlap_seconds: float  # with a host: how long the tenant's secrets sign beside it


async def create(
    store: PostgresSecrets, clock: Clock, by: Principal, wanted: WantedSecret
) -> ShownSecret:
    """Raises InvalidTask, LimitedKey, TooManySecrets."""
    _check_unlimited(by)
    host = None if wanted.host is None else _host(wanted.host)
    secret, public_key = _value(wanted.scheme, wanted.value)
    new = NewSecret(
        id=new_id(clock.now()),
        tenant_id=by.tenant_id,
        host=host,
        scheme=wanted.scheme,
        secret=secret,
        public_key=public_key,
        created_by=by.name,
        shared_seconds=None if host is None else wanted.overlap_seconds,
    )
    return await store.create(new)


async def list_all(store: PostgresSecrets, by: Principal) -> list[WebhookSecret]:
    """Newest first, without their values."""
    return await store.list(by.tenant_id)


async def show(store: PostgresSecrets, by: Principal, secret_id: UUID) -> ShownSecret:
    """Raises SecretNotFound, LimitedKey."""
    _check_unlimited(by)
    return await store.show(by.tenant_id, secret_id)


async def rotate(
    store: PostgresSecrets,
    clock: Clock,
    by: Principal,
    secret_id: UUID,
    value: str | None,
    overlap_seconds: float,
) -> ShownSecret:
    """Creates a secret that takes the place of this one; both sign during the overlap. Raises
    InvalidTask, SecretNotFound, LimitedKey, TooManySecrets, SecretEnded."""
    _check_unlimited(by)
    scheme = (await store.get(by.tenant_id, secret_id)).scheme
    secret, public_key = _value(scheme, value)
    replacing = ReplacingSecret(
        id=new_id(clock.now()), secret=secret, public_key=public_key, created_by=by.name
    )
    return await store.rotate(by.tenant_id, secret_id, replacing, overlap_seconds)


async def revoke(store: PostgresSecrets, by: Principal, secret_id: UUID) -> None:
    """Raises SecretNotFound, LimitedKey, LastSecret."""
    _check_unlimited(by)
    await store.revoke(by.tenant_id, secret_id)


def _check_unlimited(by: Principal) -> None:
    """With a secret, a key that is limited to some tasks could forge the calls of all others."""
    if by.limited:
        raise LimitedKey(
            "webhook secrets sign all tasks, and your key is limited to some types or targets"
        )


def _host(text: str) -> str:
    host = normal_host(text)
    if host is None:
        raise InvalidTask("must be a host name or an address, without a port", "/host")
    return host


def _value(scheme: Scheme, given: str | None) -> tuple[str | None, str | None]:
    """The secret and the public key to be stored; without a v1 secret the store makes one."""
    if scheme is Scheme.V1A:
        if given is not None:
            raise InvalidTask("must be left out: private keys of v1a never leave", "/secret")
        return key_pair(new_secret(ED25519_BYTES))
    try:
        if given is not None:
            secret_bytes(given)
    except ValueError as error:
        raise InvalidTask(str(error), "/secret") from error
    return given, None
