"""What the tests of quotas share: giving a tenant quotas, and asking for more than they allow."""

from datetime import datetime
from typing import Any

import msgspec
from tests.integration.api_calls import Api
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.model.tasks.task import DEFAULT_TENANT

TENANT = "/api/v1/tenant"
LIVE = """
    SELECT count(*) FROM gnomon.task
    WHERE tenant_id = $1 AND state < 4 AND cron_job_id IS NULL
"""


async def stop_the_clock(connection: Connection) -> None:
    """From here on the database's time is what `turn` makes it."""
    await connection.execute(
        """
        CREATE TABLE public.clock (moment timestamptz NOT NULL);
        INSERT INTO public.clock VALUES (clock_timestamp());
        GRANT SELECT ON public.clock TO PUBLIC;
        CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz LANGUAGE sql VOLATILE
            AS 'SELECT moment FROM public.clock'
        """
    )


async def turn(connection: Connection, seconds: float) -> datetime:
    """Let time pass; gives the new one."""
    now: datetime = await connection.fetchval(
        "UPDATE public.clock SET moment = moment + make_interval(secs => $1) RETURNING moment",
        seconds,
    )
    return now


async def give(connection: Connection, *apis: Api, **quotas: float | None) -> None:
    """Change the quotas of the tenant that needs no key, and wait until each API knows."""
    await connection.execute(
        "UPDATE gnomon.tenant SET quotas = $2 WHERE id = $1",
        DEFAULT_TENANT,
        msgspec.json.encode(quotas).decode(),
    )
    for api in apis:

        async def known(api: Api = api) -> bool:
            async with api.get(TENANT) as answer:
                found = (await answer.json())["quotas"]
            return {name: value for name, value in found.items() if value is not None} == {
                name: value for name, value in quotas.items() if value is not None
            }

        await eventually(known)


async def live(connection: Connection) -> int:
    """What counts as scheduled."""
    return int(await connection.fetchval(LIVE, DEFAULT_TENANT))


async def ended(connection: Connection, most: int) -> int:
    """Let some tasks end, as a node would."""
    rows = await connection.fetch(
        """
        DELETE FROM gnomon.task WHERE (tenant_id, id) IN (
            SELECT tenant_id, id FROM gnomon.task WHERE state < 4 LIMIT $1
        ) RETURNING id
        """,
        most,
    )
    return len(rows)


def over(problem: Any, quota: str, limit: float, used: float) -> None:
    """The problem names the quota, its value and its use."""
    assert problem["type"] == "urn:gnomon:problem:quota-exceeded"
    assert (problem["quota"], problem["limit"], problem["used"]) == (quota, limit, used)
    assert quota in problem["detail"]
