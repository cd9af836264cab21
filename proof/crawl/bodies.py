"""Made-up bodies, mended so that some of them are taken, and marked as those of their sender."""

import random
from typing import Any

from proof.crawl.household import Household

_TENANTS = ("/tenants", "/tenants/{tenant_id}")
_TEXTS = ("host", "name", "note", "queue", "reason", "source", "task_type")
# What rules out each other, or must fit together: it is left out, or is one of these.
_RULES: dict[str, Any] = {
    "target": None,
    "callback_method": "POST",
    "execute_at": None,
    "expires_at": None,
    "start_date": None,
    "end_date": None,
    "interval_seconds": None,
    "interval_from": None,
    "timezone": "Europe/Vienna",
    "retry_policy": None,
    "secret": None,
}


def valid(body: dict[str, Any], path: str, dice: random.Random) -> dict[str, Any]:
    """The body of an operator, who marks nothing: what operators create is shown to all of them."""
    if path.endswith(_TENANTS) and dice.random() < 0.7:
        return body | {"plan": "standard", "targets_allow": ["10.0.0.0/8"], "hosts": None,
                       "functions": ["billing.*"]}  # fmt: skip
    return body | ({"expires_at": None} if "expires_at" in body else {})


def marked(
    body: dict[str, Any], path: str, sender: Household, dice: random.Random
) -> dict[str, Any]:
    """The same, with the sender's mark in its texts, so that they are known wherever they are."""
    changed = dict(body)
    for name, value in body.items():
        if name in _TEXTS and isinstance(value, str):
            changed[name] = f"{sender.mark}-{dice.randrange(1000)}"
        elif name in ("payload", "payload_template") and value is not None:
            changed[name] = {"note": sender.mark}
        elif name == "filter" and isinstance(value, dict):
            changed[name] = value | {"tag": sender.mark}
        elif name == "defaults" and isinstance(value, dict):  # what its tasks will show
            changed[name] = value | {"queue": sender.mark, "tags": [sender.mark]}
    if dice.random() < 0.7:
        changed = _mended(changed, path, sender)
    return changed


def _mended(body: dict[str, Any], path: str, sender: Household) -> dict[str, Any]:
    """One that the rules beyond the schema allow as well."""
    if path.endswith("/tasks/batch") and isinstance(body.get("tasks"), list):
        tasks = [_mended(t, "/tasks", sender) for t in body["tasks"] if isinstance(t, dict)]
        return body | {"tasks": tasks}
    body = {name: _RULES.get(name, value) for name, value in body.items()}
    body = {name: value for name, value in body.items() if value is not None}
    if path.endswith(("/tasks", "/cron-jobs", "/cron-jobs/{ref}")):
        body |= {"callback_url": f"https://example.com/{sender.mark}", "task_type": sender.mark}
    if path.endswith(("/cron-jobs", "/cron-jobs/{ref}", "/preview")):
        body["cron_expression"] = "0 3 * * *"
    if path.endswith("/events/acknowledge"):
        body["ids"] = sender.stock["events"][-2:]
    if path.endswith("/backfill"):
        body |= {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
    return body
