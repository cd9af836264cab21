"""The quotas in force: of the plan, and of the tenant's own."""

from typing import Any

from gnomon.model.tenant import QUOTA_NAMES, Quotas, Tenant, quotas_of

MOST = 2**31 - 1


def test_no_number_is_larger_than_the_store_can_count() -> None:
    """Nodes ask for the permits of many tenants at once: one must not keep the others from it."""
    huge: dict[str, Any] = dict.fromkeys(QUOTA_NAMES, 10**12)
    own = quotas_of(Tenant(id="t", quotas=huge), {})
    planned = quotas_of(Tenant(id="t", plan="huge"), {"huge": Quotas(**huge)})
    for quotas in (own, planned):
        assert quotas.executions_per_minute == quotas.submissions_per_second == MOST
        assert quotas.scheduled_tasks == MOST


def test_what_was_written_by_hand_ends_no_process() -> None:
    tenant = Tenant(id="acme", quotas={"scheduled_tasks": -5, "cron_interval_seconds": -0.5})
    quotas = quotas_of(tenant, {})
    assert (quotas.scheduled_tasks, quotas.cron_interval_seconds) == (0, 0)
