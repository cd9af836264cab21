"""Every operation of the API, tried with every role: what is declared is what is enforced."""

from collections.abc import Iterator
from typing import Any

import aiohttp
from tests.conftest import serving
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_operator

from gnomon.access.principal import TENANT_ROLES, Role
from gnomon.store.postgres.database import Database

ID = "019a0000-0000-7000-8000-000000000000"
OPEN = {"healthz", "readyz", "list_webhook_keys", "confirm_subscription"}
# As the documentation says. What is new here must be thought about.
ROLES = {
    Role.SUBMIT: {
        "submit_task", "submit_batch", "create_cron_job", "put_cron_job", "patch_cron_job",
        "trigger_cron_job",
    },
    Role.READ: {
        "list_tasks", "get_task", "get_task_stats", "list_executions", "explain_task",
        "list_related_tasks", "list_transitions",
        "get_activity", "get_upcoming_tasks", "get_service_levels",
        "list_dead_letters",
        "get_dead_letter", "list_cron_jobs", "get_cron_job", "list_cron_runs", "preview_cron_job",
        "list_bulk_operations", "list_saved_views", "get_task_labels",
         "get_bulk_operation", "list_events", "stream_events",
        "list_breakers", "get_tenant", "get_metrics",
        "list_subscriptions", "get_subscription",
        "list_notifications", "get_notification",
    },
    Role.OPERATE: {
        "patch_task", "delete_task", "cancel_task", "pause_task", "resume_task", "retry_task",
        "retry_dead_letter", "archive_dead_letter", "discard_dead_letter",
        "create_bulk_operation", "put_saved_view", "delete_saved_view",
        "stop_bulk_operation",
        "acknowledge_event", "acknowledge_events",
        "delete_cron_job", "pause_cron_job", "resume_cron_job", "backfill_cron_job",
    },
    Role.ADMIN: {
        "create_key", "list_keys", "rotate_key", "revoke_key", "create_webhook_secret",
        "list_webhook_secrets", "show_webhook_secret", "rotate_webhook_secret",
        "revoke_webhook_secret",
        "put_subscription", "delete_subscription", "mute_subscription", "unmute_subscription",
        "send_test",
    },
    Role.OPERATOR: {
        "get_tenant_activity", "metrics", "get_metrics_of_tenant",
        "create_tenant", "list_tenants", "show_tenant", "patch_tenant", "delete_tenant",
        "list_plans", "list_nodes", "list_tenant_usage", "create_operator_key",
        "list_operator_keys", "rotate_operator_key", "revoke_operator_key",
        "stream_installation_events", "list_installation_events",
        "acknowledge_installation_event", "acknowledge_installation_events",
        "put_installation_subscription", "list_installation_subscriptions",
    },
}  # fmt: skip


def operations(document: Any) -> Iterator[tuple[str, str, str, Role | None]]:
    """Name, method, path and declared role of all of them."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            declared = operation.get("security")
            role = Role(declared[0]["key"][0]) if declared else None
            yield operation["operationId"], method, path, role


def filled(path: str) -> str:
    for name in ("task_id", "operation_id", "key_id", "secret_id", "event_id"):
        path = path.replace(f"{{{name}}}", ID)
    return path.replace("{", "").replace("}", "")


async def status_of(api: aiohttp.ClientSession, method: str, path: str, key: str | None) -> int:
    headers = {} if key is None else bearer(key)
    async with api.request(method, path, headers=headers) as answer:
        if answer.content_type != "text/event-stream":  # which has no end
            await answer.read()
        return answer.status


async def test_every_operation_takes_its_role_and_no_other(
    database_dsn: str, database: Database
) -> None:
    keys = {r: (await make_key(database, name=r, roles=[r]))[1] for r in sorted(TENANT_ROLES)}
    keys[Role.OPERATOR] = (await make_operator(database))[1]
    async with serving(database_dsn, auth_enabled=True) as api:
        document = await call(api, "GET", "/api/v1/openapi.json", 200)
        found = list(operations(document))
        for name, method, path, role in found:
            path = filled(path)
            if role is None:
                assert name in OPEN
                expected = 422 if name == "confirm_subscription" else 200  # it needs a token
                assert await status_of(api, method, path, None) == expected
                continue
            assert await status_of(api, method, path, None) == 401, name
            for had, key in keys.items():
                status = await status_of(api, method, path, key)
                may = had is role or (had is Role.ADMIN and role is not Role.OPERATOR)
                assert (status not in (401, 403)) == may, f"{name} with {had}: {status}"
                assert status < 500, f"{name} with {had}: {status}"
    declared = {name: role for name, _, _, role in found}
    for role, names in ROLES.items():
        assert {declared[name] for name in names} == {role}
