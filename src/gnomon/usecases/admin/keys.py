"""API keys: created, listed, rotated and revoked, by an administrator of their tenant or, for those
of operators, by an operator.

Nobody creates a key that may do more, or lasts longer, than their own; nor do they see, rotate or
revoke such a key.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gnomon.access.api_key import RANDOM_BYTES, ApiKey, hash_of, hint_of, key_from
from gnomon.access.grant_errors import KeyForbidden, TargetForbidden, TypeForbidden
from gnomon.access.principal import Grant, Principal, Requester
from gnomon.clock import Clock, new_id, new_secret
from gnomon.model.errors import InvalidTask, RoleMissing
from gnomon.model.targets.allow_list import listed
from gnomon.store.ports.tenancy.keys import ApiKeyPage, NewKey, Replacement
from gnomon.store.postgres.identity.api_keys import PostgresKeys

MOST_NAME_CHARACTERS = 100
DEFAULT_OVERLAP = 24 * 3600.0
LONGEST_OVERLAP = 30 * 24 * 3600.0


class WantedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be created."""

    name: str
    grant: Grant
    expires_at: datetime | None = None


class CreatedKey(NamedTuple):
    """A key and its record. It is shown once, and stored nowhere."""

    key: ApiKey
    secret: str


async def create(keys: PostgresKeys, clock: Clock, by: Requester, wanted: WantedKey) -> CreatedKey:
    """Creates a key of the same owner as the requester's. Raises InvalidTask, RoleMissing,
    TypeForbidden, TargetForbidden, KeyForbidden, TooManyKeys, KeyRingFull."""
    now = clock.now()
    _check(wanted, now)
    _check_grant(by, wanted.grant)
    _check_end(by, wanted.expires_at, now)
    new, secret = _new(owner_of(by), wanted, now, by.name)
    return CreatedKey(await keys.create(new, by), secret)


async def create_first(
    keys: PostgresKeys, clock: Clock, owner: str | None, wanted: WantedKey
) -> CreatedKey:
    """Creates a key of a tenant (None: of the operators) on behalf of the owner of the database,
    whom nobody has to let in. Raises InvalidTask, TenantNotFound, TooManyKeys, KeyRingFull."""
    now = clock.now()
    _check(wanted, now)
    new, secret = _new(owner, wanted, now, None)
    return CreatedKey(await keys.create(new), secret)


async def list_covered(
    keys: PostgresKeys, by: Requester, cursor: UUID | None, limit: int
) -> ApiKeyPage:
    """A page of keys, without those that may do more than the requester's; so it may be short."""
    page = await keys.list(owner_of(by), cursor, limit)
    # In a thread: long lists are compared with long lists, for each key.
    covered = await asyncio.to_thread(_covered, by, page.keys)
    return ApiKeyPage(covered, page.next_cursor)


async def rotate(
    keys: PostgresKeys, clock: Clock, by: Requester, key_id: UUID, overlap_seconds: float
) -> CreatedKey:
    """Creates a key that takes the place of this one, which ends after the overlap. Raises
    KeyNotFound, KeyForbidden, KeyEnded, TooManyKeys."""
    owner = owner_of(by)
    _check_touch(by, await keys.get(owner, key_id))
    secret = _secret()
    replacement = Replacement(
        id=new_id(clock.now()), hash=hash_of(secret), hint=hint_of(secret), created_by=by.name
    )
    made = await keys.rotate(owner, key_id, replacement, overlap_seconds, by)
    return CreatedKey(made, secret)


async def revoke(
    keys: PostgresKeys, by: Requester, key_id: UUID, *, cascade: bool
) -> Sequence[UUID]:
    """Revokes a key; with `cascade` also those that were created with it. Returns the revoked
    ones. Raises KeyNotFound, KeyForbidden."""
    owner = owner_of(by)
    _check_touch(by, await keys.get(owner, key_id))
    return await keys.revoke(owner, key_id, cascade=cascade)


def owner_of(by: Requester) -> str | None:
    """The tenant whose keys the requester manages; None: the operators' keys."""
    return by.tenant_id if isinstance(by, Principal) else None


def _check(wanted: WantedKey, now: datetime) -> None:
    name = wanted.name
    if not 1 <= len(name) <= MOST_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
        detail = f"must be 1 to {MOST_NAME_CHARACTERS} printable characters, with no space around"
        raise InvalidTask(detail, "/name")
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise InvalidTask("must be in the future", "/expires_at")


def _check_grant(by: Requester, grant: Grant) -> None:
    for role in grant.roles:
        if not by.may(role):
            raise RoleMissing(role, by.roles)
    among = "must be among those of your own key:"
    if not by.covers_types(grant):
        raise TypeForbidden(f"{among} {listed(sorted(by.task_types or ()))}", "/task_types")
    if not by.covers_queues(grant):
        raise TypeForbidden(f"{among} {listed(sorted(by.queues or ()))}", "/queues")
    if not by.allow.covers_functions(grant.allow):
        raise TargetForbidden(f"{among} {listed(by.allow.functions)}", "/functions")
    if not by.allow.covers_hosts(grant.allow):
        raise TargetForbidden(f"{among} {listed(by.allow.hosts)}", "/hosts")


def _check_end(by: Requester, expires_at: datetime | None, now: datetime) -> None:
    """Raises KeyForbidden where the key would outlive the requester's. (One without an end of its
    own ends with that.)"""
    if by.expires_at is not None and (expires_at or now) > by.expires_at:
        raise KeyForbidden(
            "expires_at must not be later than the end of your own key or token, "
            f"{by.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        )


def _check_touch(by: Requester, key: ApiKey) -> None:
    if not by.covers(key.grant):
        raise KeyForbidden(
            f"the key {key.id} may do more than yours: it has roles, task types, queues, functions "
            "or hosts that yours has not"
        )


def _covered(by: Requester, keys: Sequence[ApiKey]) -> list[ApiKey]:
    return [key for key in keys if by.covers(key.grant)]


def _new(
    owner: str | None, wanted: WantedKey, now: datetime, created_by: str | None
) -> tuple[NewKey, str]:
    secret = _secret()
    grant = wanted.grant
    new = NewKey(
        id=new_id(now),
        tenant_id=owner,
        name=wanted.name,
        hash=hash_of(secret),
        hint=hint_of(secret),
        roles=grant.roles,
        task_types=grant.task_types,
        queues=grant.queues,
        allow=grant.allow,
        expires_at=wanted.expires_at,
        created_by=created_by,
    )
    return new, secret


def _secret() -> str:
    return key_from(new_secret(RANDOM_BYTES))
