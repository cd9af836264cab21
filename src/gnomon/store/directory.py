"""What a process remembers about tenants: at most half a second old while PostgreSQL answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.limit import Limiter
from gnomon.model.tenant import UNLIMITED, Quotas, Tenant, quotas_of
from gnomon.settings import Settings, SettingsError

log = structlog.get_logger("gnomon.store")

LOOK_SECONDS = 0.5


class Snapshot(msgspec.Struct, frozen=True):
    """Tenants and what is theirs, at one revision."""

    revision: int = -1
    tenants: Mapping[str, Tenant] = {}
    limiters: Mapping[str, Sequence[Limiter]] = {}  # by tenant
    schemas: Mapping[tuple[str, str], bytes] = {}  # JSON Schemas by tenant and task type


class DirectoryStore(Protocol):
    """Where tenants are kept."""

    async def revision(self) -> int:
        """A number that grows with every change of the rest."""

    async def snapshot(self) -> Snapshot:
        """All of it. What changes meanwhile may be in it or not; then the revision has grown."""


def plans_of(settings: Settings) -> dict[str, Quotas]:
    """The plans that are configured. Raises SettingsError."""
    try:
        return msgspec.convert(settings.plans, dict[str, Quotas], strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"plans cannot be used: {error}") from error


class Directory:
    """Answers from memory. `run` must be running for changes to be seen."""

    def __init__(self, store: DirectoryStore, clock: Clock, plans: Mapping[str, Quotas]) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._snapshot = Snapshot()
        self._quotas: dict[str, Quotas] = {}
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, told: Callable[[], None]) -> None:
        """Be told after every change."""
        self._on_change.append(told)

    async def load(self) -> bool:
        """Look now; gives whether anything has changed."""
        if await self._store.revision() == self._snapshot.revision:
            return False
        self._snapshot = await self._store.snapshot()
        self._quotas = {t.id: quotas_of(t, self._plans) for t in self._snapshot.tenants.values()}
        for told in self._on_change:
            told()
        return True

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.load()
            except StoreUnavailable as error:
                log.debug("PostgreSQL is away", why=str(error))

    def knows(self, tenant_id: str) -> bool:
        return tenant_id in self._snapshot.tenants

    def others_than(self, tenant_id: str) -> bool:
        """Whether there is any other tenant."""
        return len(self._snapshot.tenants) > self.knows(tenant_id)

    def tenant(self, tenant_id: str) -> Tenant:
        """What is known of it; one without a row has no quotas."""
        return self._snapshot.tenants.get(tenant_id) or Tenant(id=tenant_id, plan=UNLIMITED)

    def weight(self, tenant_id: str) -> float:
        tenant = self._snapshot.tenants.get(tenant_id)
        return 1.0 if tenant is None else tenant.weight

    def quotas(self, tenant_id: str) -> Quotas:
        return self._quotas.get(tenant_id, _NO_QUOTAS)

    def limiters(self, tenant_id: str) -> Sequence[Limiter]:
        return self._snapshot.limiters.get(tenant_id, ())

    def schema(self, tenant_id: str, task_type: str) -> bytes | None:
        return self._snapshot.schemas.get((tenant_id, task_type))


_NO_QUOTAS = quotas_of(Tenant(id="", plan=UNLIMITED), {})
