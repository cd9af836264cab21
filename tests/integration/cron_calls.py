"""Calls about cron jobs, for the tests of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.api_calls import Api, call

JOBS = "/api/v1/cron-jobs"
NOBODY = "01890000-0000-7000-8000-000000000000"
# Never due while a test runs.
YEARLY = "0 0 29 2 *"
JOB: dict[str, Any] = {
    "name": "report",
    "task_type": "mail",
    "callback_url": "http://127.0.0.1:9/hook",
    "cron_expression": YEARLY,
}
DAILY = JOB | {"cron_expression": "30 4 * * *"}


async def created(api: Api, **fields: Any) -> Any:
    return await call(api, "POST", JOBS, 201, JOB | fields)


async def runs_of(api: Api, ref: str) -> list[Any]:
    return list((await call(api, "GET", f"{JOBS}/{ref}/runs", 200))["runs"])


def ago(days: int) -> datetime:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days)
