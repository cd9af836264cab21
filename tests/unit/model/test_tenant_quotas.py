"""The quotas in force: of the plan, and of the tenant's own."""

from typing import Any

import pytest

from gnomon.model.errors import QuotaExceeded
from gnomon.model.fleet.tenant import (
    QUOTA_NAMES,
    STANDARD,
    Quotas,
    Tenant,
    overrides_of,
    quotas_of,
)

MOST = 2**31 - 1


def test_the_standard_plan_bounds_everything() -> None:
    standard = quotas_of(Tenant(id="t", plan=STANDARD), {})
    assert [name for name in QUOTA_NAMES if getattr(standard, name) is None] == []


def test_no_number_is_larger_than_the_store_can_count() -> None:
    """Nodes ask for the permits of many tenants at once: one must not keep the others from it."""
    huge: dict[str, Any] = dict.fromkeys(QUOTA_NAMES, 10**12)
    own = quotas_of(Tenant(id="t", quotas=huge), {})
    planned = quotas_of(Tenant(id="t", plan="huge"), {"huge": Quotas(**huge)})
    for quotas in (own, planned):
        assert quotas.executions_per_minute == quotas.submissions_per_second == MOST
        assert quotas.scheduled_tasks == MOST
        assert quotas.stored_bytes == 10**12


@pytest.mark.parametrize(
    "written",
    [
        '{"scheduled_tasks": -5}',
        '{"scheduled_tasks": "many"}',
        '{"cron_jobs": true}',
        "[]",
        '{"payload_bytes": 1e999}',
    ],
)
def test_what_was_written_by_hand_may_be_wrong(written: str) -> None:
    with pytest.raises(ValueError, match="its quota"):
        overrides_of(written)


def test_what_is_right_is_read() -> None:
    written = '{"cron_jobs": 3, "scheduled_tasks": 0, "payload_bytes": null}'
    assert overrides_of(written) == {"cron_jobs": 3, "scheduled_tasks": 0, "payload_bytes": None}


@pytest.mark.parametrize(("number", "wait"), [(1, 3), (5, 3), (6, None)])
def test_what_can_never_pass_is_not_told_to_come_again(number: int, wait: int | None) -> None:
    assert QuotaExceeded("submissions_per_second", 5, 5, number, wait=3).wait == wait


@pytest.mark.parametrize("name", QUOTA_NAMES)
def test_a_quota_of_a_plan_is_not_negative(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must not be negative"):
        Quotas(**{name: -1})
    assert getattr(Quotas(**{name: 0}), name) == 0
