"""Caches tenants in a process: at most half a second old while PostgreSQL answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec
import structlog

from gnomon.access.webhook_secret import PublicKey, SigningSecret
from gnomon.clock import Clock
from gnomon.limits.limiter import Limiter
from gnomon.model.fleet.crowding import Crowds
from gnomon.model.fleet.tenant import BUILT_IN_PLANS, UNLIMITED, Quotas, Tenant, quotas_of
from gnomon.model.targets.allow_list import AllowList
from gnomon.model.tasks.type_defaults import BUILT_IN, TypeDefaults
from gnomon.settings import SettingsError, SharingSettings

log = structlog.get_logger("gnomon.store")

LOOK_SECONDS = 0.5


class CachedTenant(msgspec.Struct, frozen=True):
    """Everything that a process knows of one tenant."""

    tenant: Tenant | None = None  # None: it has no row
    limiters: Sequence[Limiter] = ()
    schemas: Mapping[str, bytes] = {}  # JSON Schemas by task type
    defaults: Mapping[str, TypeDefaults] = {}  # by task type, of those that have some
    secrets: Sequence[SigningSecret] = ()  # live webhook secrets, in a node
    public_keys: Sequence[PublicKey] = ()  # of webhook secrets, in the API
    mistake: str = ""  # why the quotas in its row cannot be used, if they cannot


class Changes(msgspec.Struct, frozen=True):
    """The records of tenants that have changed."""

    revision: int
    whole: bool  # all tenants are in it
    tenants: Mapping[str, CachedTenant]


class Revision(NamedTuple):
    """The row that every process reads twice a second."""

    number: int  # grows with every change of what is kept about tenants
    authentication: bool  # whether requests need a key or a token
    full: str | None = None  # why there is no room for new work, where there is none
    crowded_at: datetime | None = None  # when it was said which lanes are crowded, if any is


class TenantSource(Protocol):
    """The store that tenants are read from."""

    async def revision(self) -> "Revision":
        """Read the row that says whether there is anything else to read."""

    async def changes(self, since: int | None) -> Changes:
        """Read the tenants that have changed after a revision (None: all of them). A change made
        meanwhile may be missing; then the revision has grown."""

    async def crowds(self) -> Crowds:
        """Read which lanes are crowded."""


def plans_of(settings: SharingSettings) -> dict[str, Quotas]:
    """The plans of the settings, by name. Raises SettingsError."""
    try:
        return msgspec.convert(settings.plans, dict[str, Quotas], strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"plans cannot be used: {error}") from error


class TenantCache:
    """Answers from memory. `load` must be called every LOOK_SECONDS for changes to be seen."""

    def __init__(self, store: TenantSource, clock: Clock, plans: Mapping[str, Quotas]) -> None:
        self._store = store
        self._clock = clock
        self.plans = {**BUILT_IN_PLANS, **plans}
        self._revision: int | None = None
        self.authentication = True  # until it is known
        self.full: str | None = None
        self.crowds: Crowds = {}  # lanes in which new tasks are refused
        self._crowded_at: datetime | None = None
        self._known: dict[str, CachedTenant] = {}
        self._tenants = 0  # those that have a row
        self._quotas: dict[str, Quotas] = {}
        self.allow_lists: dict[str, AllowList] = {}  # of the tenants that are held to one
        self._on_change: list[Callable[[], None]] = []
        self._looking = asyncio.Lock()
        self._looks = 0  # that have begun,
        self._last_look = 0  # and the last of them that told anything

    def on_change(self, told: Callable[[], None]) -> None:
        """Register a function that is called after every change."""
        self._on_change.append(told)

    async def load(self) -> bool:
        """Look now; returns whether anything has changed."""
        async with self._looking:
            return await self._load()

    async def look_again(self) -> None:
        """See everything that was committed before this call. Callers who wait share one look."""
        asked = self._looks
        async with self._looking:
            if self._last_look <= asked:
                await self._load()

    async def _load(self) -> bool:
        self._looks += 1
        revision, self.authentication, self.full, crowded_at = await self._store.revision()
        if crowded_at != self._crowded_at:
            self.crowds = {} if crowded_at is None else await self._store.crowds()
            self._crowded_at = crowded_at
        if revision == self._revision:
            self._last_look = self._looks
            return False
        changes = await self._store.changes(self._revision)
        for tenant_id in {*changes.tenants, *(self._known if changes.whole else ())}:
            self._learn(tenant_id, changes.tenants.get(tenant_id, _NOTHING))
        self._tenants = sum(each.tenant is not None for each in self._known.values())
        self._revision = changes.revision
        self._last_look = self._looks
        for told in self._on_change:
            told()
        return True

    def _learn(self, tenant_id: str, now: CachedTenant) -> None:
        before = self._known.get(tenant_id, _NOTHING).tenant
        if now.mistake and now.tenant is not None:
            log.error("quotas of a tenant are wrong", tenant=tenant_id, why=now.mistake)
            if before is not None:
                kept = msgspec.structs.replace(now.tenant, quotas=before.quotas)
                now = msgspec.structs.replace(now, tenant=kept)
        if now == _NOTHING:
            self._known.pop(tenant_id, None)
        else:
            self._known[tenant_id] = now
        if now.tenant is not None and now.tenant.allow.limits:
            self.allow_lists[tenant_id] = now.tenant.allow
        else:
            self.allow_lists.pop(tenant_id, None)
        if now.tenant is None:
            self._quotas.pop(tenant_id, None)
        else:
            self._quotas[tenant_id] = quotas_of(now.tenant, self.plans)

    def is_full(self) -> bool:
        """Whether there is no room for new work."""
        return self.full is not None

    def bounded_bytes(self) -> dict[str, int]:
        """Tenants that have a quota of stored bytes, with that quota."""
        bounds = {tenant: quotas.stored_bytes for tenant, quotas in self._quotas.items()}
        return {tenant: most for tenant, most in bounds.items() if most is not None}

    def bounded_lanes(self) -> dict[str, int]:
        """Tenants that have a quota of due tasks in each lane, with that quota."""
        bounds = {tenant: quotas.ready_tasks for tenant, quotas in self._quotas.items()}
        return {tenant: most for tenant, most in bounds.items() if most is not None}

    def knows(self, tenant_id: str) -> bool:
        return self._known.get(tenant_id, _NOTHING).tenant is not None

    def others_than(self, tenant_id: str) -> bool:
        """Whether there is any other tenant."""
        return self._tenants > self.knows(tenant_id)

    def tenant(self, tenant_id: str) -> Tenant:
        """The tenant; one without a row has no quotas."""
        known = self._known.get(tenant_id, _NOTHING).tenant
        return known or Tenant(id=tenant_id, plan=UNLIMITED)

    def weight(self, tenant_id: str) -> float:
        tenant = self._known.get(tenant_id, _NOTHING).tenant
        return 1.0 if tenant is None else tenant.weight

    def quotas(self, tenant_id: str) -> Quotas:
        return self._quotas.get(tenant_id, _NO_QUOTAS)

    def limiters(self, tenant_id: str) -> Sequence[Limiter]:
        return self._known.get(tenant_id, _NOTHING).limiters

    def schema(self, tenant_id: str, task_type: str) -> bytes | None:
        return self._known.get(tenant_id, _NOTHING).schemas.get(task_type)

    def defaults(self, tenant_id: str, task_type: str) -> TypeDefaults:
        return self._known.get(tenant_id, _NOTHING).defaults.get(task_type, BUILT_IN)

    def secrets(self, tenant_id: str) -> Sequence[SigningSecret]:
        return self._known.get(tenant_id, _NOTHING).secrets

    def public_keys(self, tenant_id: str) -> Sequence[PublicKey]:
        return self._known.get(tenant_id, _NOTHING).public_keys


_NOTHING = CachedTenant()
_NO_QUOTAS = quotas_of(Tenant(id="", plan=UNLIMITED), {})
