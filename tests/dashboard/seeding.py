"""An installation with something of everything, made by its API and run by its nodes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import asyncpg
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.bulk_calls import BULK
from tests.integration.nodes import running_node
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id

JOBS = "/api/v1/cron-jobs"
DEAD = "/api/v1/dead-letters"
RUNS = "/api/v1/workflow-runs"
WORKFLOWS = "/api/v1/workflows"
APP = "tests.dashboard.shop:app"
_ONCE = {"max_retries": 0}
_PATIENT = {"max_retries": 5, "backoff": "fixed", "base_seconds": 3600, "jitter": False}
_QUICK = {"max_retries": 2, "backoff": "fixed", "base_seconds": 0.01, "jitter": False}


def python(function: str, payload: Any, **fields: Any) -> dict[str, Any]:
    """A task for a handler of the shop."""
    target = {"type": "python", "function": function}
    return {"task_type": function, "target": target, "payload": payload, **fields}


@asynccontextmanager
async def seeded(dsn: str, api: Api) -> AsyncIterator[dict[str, str]]:
    """Tasks in every state, recurring jobs, limits and two nodes, for as long as it lasts.

    Gives one of each kind of thing, by the name that paths have for it.
    """
    async with AsyncExitStack() as stack:
        await _limits(api)
        await _settings(api)
        await _subscriptions(api)
        for name in ("eu-1", "eu-2"):
            await stack.enter_async_context(
                running_node(
                    dsn, node_app=APP, node_name=name, node_drain_seconds=0.05, node_slots=10,
                    node_scan_seconds=0.2, node_lease_seconds=10.0,
                )
            )  # fmt: skip
        jobs = await _jobs(api)
        await _ended_tasks(api)
        await _waiting_tasks(api)
        running = await _running_tasks(api)
        run_id = await _workflow_run(api)
        dead = (await call(api, "GET", f"{TASKS}?status=DEAD_LETTERED", 200))["tasks"]
        groups = (await call(api, "GET", f"{DEAD}/groups", 200))["groups"]
        note = {"note": "paid by hand, after a call"}
        await call(api, "POST", f"{DEAD}/{dead[-1]['task_id']}/archive", 200, note)
        yield {
            "fingerprint": groups[0]["fingerprint"],
            "task_id": dead[0]["task_id"],
            "running": running[0],
            "ref": jobs[0],
            "run_id": run_id,
            "workflows/name": "order",
            "operation_id": await _bulk_operation(api),
            "batch_id": await _opened_batch(api),
            "limits/name": "bank",
            "/bulk-operations/new": "/bulk-operations/new?action=cancel&q=tag:invoices",
            "task-types/name": "send_invoice",
            "tenant_id": "acme",
            "key_id": str(new_id(SystemClock().now())),  # there is none without authentication
            "subscriptions/name": "on-call",
            "operator-subscriptions/name": "operators",
            "event_id": str(new_id(SystemClock().now())),  # only asked for by who may not
            "secret_id": str(new_id(SystemClock().now())),
        }


async def _limits(api: Api) -> None:
    for name, body in {
        "bank": {"concurrency": 2, "queue": "bank"},
        "mail": {"rate": 20, "per_seconds": 1, "task_type": "send_invoice"},
    }.items():
        await call(api, "PUT", f"/api/v1/limiters/{name}", 201, body)


async def _settings(api: Api) -> None:
    schema = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
    defaults = {"timeout_seconds": 60, "retry_policy": {"max_retries": 5}}
    body = {"schema": schema, "defaults": defaults}
    await call(api, "PUT", "/api/v1/task-types/send_invoice", 201, body)
    tenants: dict[str, dict[str, Any]] = {
        "acme": {"weight": 2.0, "quotas": {"cron_jobs": 50, "executions_per_minute": None}},
        "globex": {"plan": "unlimited"},
    }
    for tenant, fields in tenants.items():
        await call(api, "POST", "/api/v1/tenants", 201, {"tenant_id": tenant, **fields})


async def _subscriptions(api: Api) -> None:
    channel = {"type": "webhook", "url": "http://127.0.0.1:9/alarm?token=hush"}
    for name, fields in {
        "on-call": {"kinds": ["breaker.*", "tasks.retry_storm"], "severity": "error",
                    "quiet_hours": {"start": "22:00", "end": "07:00", "timezone": "Europe/Vienna"}},
        "chat": {"channel": {"type": "slack", "url": "https://chat.example.com/hooks/hush"},
                 "task_types": ["send_invoice", "charge_card"]},
    }.items():  # fmt: skip
        await call(api, "PUT", f"/api/v1/subscriptions/{name}", 201, {"channel": channel} | fields)
    await call(api, "POST", "/api/v1/subscriptions/chat/mute", 200, {"seconds": 86_400})
    body = {"channel": channel, "all_tenants": True, "kinds": ["node.*", "database.*"]}
    await call(api, "PUT", "/api/v1/installation/subscriptions/operators", 201, body)


async def _jobs(api: Api) -> list[str]:
    made = []
    for body in (
        python("reindex_products", {}, name="nightly-index", cron_expression="30 2 * * *",
               timezone="Europe/Vienna", tags=["search"]),
        python("send_invoice", {"order": 7}, name="monthly-invoices",
               cron_expression="0 6 1 * *", timezone="America/New_York"),
        python("sync_stock", {"warehouse": "graz"}, name="stock", interval_seconds=900,
               retry_policy=_ONCE),
    ):  # fmt: skip
        body["payload_template"] = body.pop("payload")
        made.append((await call(api, "POST", JOBS, 201, body))["cron_job_id"])
    await call(api, "POST", f"{JOBS}/stock/trigger", 202)
    await call(api, "POST", f"{JOBS}/nightly-index/trigger", 202)
    reason = {"reason": "the accountants close the books"}
    await call(api, "POST", f"{JOBS}/monthly-invoices/pause", 200, reason)
    return made


async def _ended_tasks(api: Api) -> None:
    tasks = [
        *(python("send_invoice", {"order": n}, tags=["invoices"]) for n in range(12)),
        *(python("charge_card", {"order": n, "cents": 100 * n}, queue="bank", priority="HIGH",
                 retry_policy=_QUICK, tags=["payments", "eu"]) for n in range(9)),
        *(python("sync_stock", {"warehouse": name}, retry_policy=_ONCE)
          for name in ("graz", "linz", "wels", "ried")),
        *(python("sync_stock", {"warehouse": name}, retry_policy=_PATIENT, name=f"stock of {name}")
          for name in ("steyr", "enns")),
    ]  # fmt: skip
    for task_id in await _batch(api, tasks):
        await reaches(api, task_id, "COMPLETED", "DEAD_LETTERED", "FAILED")


async def _waiting_tasks(api: Api) -> None:
    now = SystemClock().now()
    tasks = [
        python("send_invoice", {"order": 100 + n}, name=f"reminder {n}", priority="LOW",
               execute_at=(now + timedelta(hours=1 + n)).isoformat())
        for n in range(12)
    ]  # fmt: skip
    made = await _batch(api, tasks)
    await call(api, "POST", f"{TASKS}/{made[0]}/pause", 200)
    await call(api, "POST", f"{TASKS}/{made[1]}/cancel", 200)


async def _running_tasks(api: Api) -> list[str]:
    """Two that hold all of a limit, and two that wait for it."""
    tasks = [
        python("encode_video", {"file": f"/srv/video/{n}.mov", "height": 1080}, queue="bank",
               name=f"trailer {n}", priority="CRITICAL", timeout_seconds=3600)
        for n in range(2)
    ]  # fmt: skip
    made = await _batch(api, tasks)
    for task_id in made:
        await reaches(api, task_id, "RUNNING")
    await _batch(api, [python("charge_card", {"order": n}, queue="bank") for n in (41, 43)])
    return made


async def _workflow_run(api: Api) -> str:
    """One that a dead letter holds up, beside a node that runs."""
    nodes = {
        "reserve": python("send_invoice", {"order": 7}),
        "charge": python("charge_card", {"order": 7}, after=["reserve"], retry_policy=_QUICK),
        "check_stock": python("sync_stock", {"warehouse": "graz"}, retry_policy=_ONCE),
        "film": python(
            "encode_video", {"file": "/srv/7.mov"}, after=["reserve"], timeout_seconds=3600
        ),
        "pick": python("send_invoice", {"order": 8}, after=["charge", "check_stock"]),
        "ship": python("send_invoice", {"order": 9}, after=["pick"]),
        "notify": python("send_invoice", {"order": 9}, after=["charge", "ship"], when="all_done"),
    }
    definition = {"name": "order", "nodes": nodes, "deadline_seconds": 86_400}
    await call(api, "POST", WORKFLOWS, 201, definition)
    given = {"input": {"order": "o-7"}}
    run_id: str = (await call(api, "POST", f"{WORKFLOWS}/order/runs", 202, given))["run_id"]

    async def held_up() -> bool:
        run = await call(api, "GET", f"{RUNS}/{run_id}", 200)
        found = {each["node"]: each["status"] for each in run["nodes"]}
        return (run["status"], found["film"]) == ("FAILED", "RUNNING")

    await eventually(held_up, timeout=60)
    return run_id


async def _opened_batch(api: Api) -> str:
    """A batch with a task that waits, and what follows it."""
    given = {"name": "pictures", "on_complete": python("sync_stock", {"sku": "a"})}
    batch_id: str = (await call(api, "POST", "/api/v1/batches", 201, given))["batch_id"]
    task = python("sync_stock", {"sku": "a"}, delay_seconds=86_400, batch_id=batch_id)
    await call(api, "POST", "/api/v1/tasks", 202, task)
    return batch_id


async def _bulk_operation(api: Api) -> str:
    asked = {"action": "cancel", "filter": {"tag": "no such"}}
    operation_id: str = (await call(api, "POST", BULK, 202, asked))["operation_id"]
    return operation_id


async def _batch(api: Api, tasks: list[dict[str, Any]]) -> list[str]:
    answer = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks})
    return [each["task_id"] for each in answer["tasks"]]


async def reaches(api: aiohttp.ClientSession, task_id: str, *statuses: str) -> None:
    async def reached() -> bool:
        found = await call(api, "GET", f"{TASKS}/{task_id}", 200)
        return found["status"] in statuses

    await eventually(reached, timeout=60)


_HISTORY = """
INSERT INTO gnomon.activity (
    tenant_id, span, task_type, starts_at, lane, submitted, started, succeeded, failed, dead,
    seconds, delays
)
SELECT 'default', span, task_type, at, 2, n, n, n - bad, bad, bad / 3, n * 0.2,
       array[n / 2, n / 4, n / 8, n / 16, n / 32, bad, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
FROM (
    SELECT span, at, task_type,
           (busy * span * (40 + 25 * sin(extract(epoch FROM at) / 2400)
                           + mod(extract(epoch FROM at)::bigint / 60 * 7919, 11)))::bigint AS n,
           CASE WHEN task_type IN ('', 'sync_stock')
                THEN span * mod(extract(epoch FROM at)::bigint / 60, 4) ELSE 0 END AS bad
    FROM (VALUES ('', 3.0), ('send_invoice', 1.6), ('charge_card', 0.9), ('sync_stock', 0.5))
             AS types (task_type, busy),
         (SELECT 1 AS span, at FROM generate_series(
              date_trunc('minute', gnomon.now()) - interval '23 hours',
              date_trunc('minute', gnomon.now()) - interval '1 minute', interval '1 minute') AS at
          UNION ALL
          SELECT 60, at FROM generate_series(
              date_trunc('hour', gnomon.now()) - interval '6 days',
              date_trunc('hour', gnomon.now()) - interval '1 hour', interval '1 hour') AS at
         ) AS times
) AS sums
ON CONFLICT DO NOTHING
"""


async def history(connection: "asyncpg.Connection[Any]") -> None:
    """What nodes would have added up in the days before."""
    await connection.execute(_HISTORY)
