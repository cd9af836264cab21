"""Quotas and their use, as pages show them."""

from collections.abc import Callable

import msgspec

from gnomon.dashboard.text import words
from gnomon.model.fleet.tenant import QUOTA_NAMES, Quotas
from gnomon.store.ports.work.tasks import QuotaUse

_LABELS = {
    "scheduled_tasks": "Tasks that have not ended",
    "ready_tasks": "Due tasks that wait, of each priority",
    "executions_per_minute": "Executions a minute",
    "submissions_per_second": "Submissions a second",
    "payload_bytes": "Size of a payload",
    "cron_jobs": "Recurring jobs",
    "cron_interval_seconds": "Shortest time between two runs",
    "stored_bytes": "Stored bytes",
    "nodes_per_run": "Nodes of a workflow run",
}
UNBOUND = "no bound"


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One quota."""

    name: str
    label: str
    bound: str
    planned: str  # of the plan, where that differs
    use: str | None
    share: float | None  # of the bound that is in use


def quota_rows(quotas: Quotas, use: QuotaUse, plan: Quotas) -> list[QuotaRow]:
    """All quotas of a tenant."""
    rows = []
    for name in QUOTA_NAMES:
        bound, planned, used = getattr(quotas, name), getattr(plan, name), getattr(use, name, None)
        write = _writer(name)
        rows.append(
            QuotaRow(
                name=name,
                label=_LABELS[name],
                bound=UNBOUND if bound is None else write(bound),
                planned=UNBOUND if planned is None else write(planned),
                use=None if used is None else write(used),
                share=None if used is None or bound is None else used / bound if bound else 1.0,
            )
        )
    return rows


def quota_label(name: str) -> str:
    return _LABELS[name]


def quota_text(name: str, bound: float | None) -> str:
    return UNBOUND if bound is None else _writer(name)(bound)


def _writer(name: str) -> Callable[[float], str]:
    if name.endswith("_bytes"):
        return words.size
    if name.endswith("_seconds"):
        return words.span
    return lambda value: words.number(int(value))
