"""Parts a batch by tenants."""

from collections.abc import Sequence
from typing import TypeVar

_I = TypeVar("_I")


def by_tenant(tenants: Sequence[str], items: list[_I]) -> dict[str, list[_I]]:
    """The items of each tenant. Most batches are of one."""
    if tenants and tenants.count(tenants[0]) == len(tenants):
        return {tenants[0]: items}
    parts: dict[str, list[_I]] = {tenant: [] for tenant in tenants}
    for tenant, item in zip(tenants, items, strict=True):
        parts[tenant].append(item)
    return parts
