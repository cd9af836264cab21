"""The rules that a tenant's requests are checked against."""

from collections.abc import Mapping

import msgspec

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.targets.allow_list import AllowList
from gnomon.settings.queues import QueueConnection
from gnomon.store.guards import Guards
from gnomon.store.tenant_cache import TenantCache
from gnomon.workflow.graph import MOST_RUN_NODES


class TenantRules(msgspec.Struct, frozen=True):
    """Time, settings and tenants, as far as they decide what is accepted."""

    clock: Clock
    directory: TenantCache
    guards: Guards
    max_payload_bytes: int
    max_run_nodes: int = MOST_RUN_NODES
    queues: Mapping[str, QueueConnection] | None = None  # None: other processes know

    def allow_list(self, tenant_id: str) -> AllowList:
        """The targets that the tenant may call."""
        return self.directory.tenant(tenant_id).allow

    def quotas(self, tenant_id: str) -> Quotas:
        return self.directory.quotas(tenant_id)

    def address_guard(self, tenant_id: str) -> AddressGuard | None:
        """The addresses that the tenant may call; None: all."""
        return self.guards.of(tenant_id)
