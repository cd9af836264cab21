"""The clock changes of New York in 2026, through a whole node on a turned clock."""

from datetime import datetime, timedelta

from tests.integration.nodes import running_node
from tests.integration.turning import Turning, turning, utc
from tests.waiting import eventually

from gnomon.cron.dst import Dst, Fold, Gap
from gnomon.cron.job import Overlap
from gnomon.store.postgres.database import Database

NEW_YORK = "America/New_York"
HURRY = {"node_plan_seconds": 0.1}


async def step(turned: Turning, moment: datetime) -> None:
    """Turn to shortly before a full minute, and over it; the job that fires every minute tells
    when the node has come so far."""
    before = len(turned.ran())
    await turned.to(moment - timedelta(seconds=4))
    await turned.planned(moment)
    calls = [ran for ran in turned.ran()[before:] if ran.fire >= moment]
    now = await turned.now()
    assert not calls or now >= moment, f"early: {calls}"
    await turned.to(max(now, moment + timedelta(seconds=1)))

    async def told() -> bool:
        return any(ran.fire == moment for ran in turned.ran("minutely"))

    await eventually(told)
    await turned.quiet()


async def through(
    turned: Turning, dsn: str, expression: str, policies: dict[str, Dst], moments: list[datetime]
) -> dict[str, list[datetime]]:
    """Let a day's clock change come, one step after the other; gives the fires of each job."""
    jobs = [turned.job(n, expression, timezone=NEW_YORK, dst=d) for n, d in policies.items()]
    await turned.create([*jobs, turned.job("minutely", "* * * * *", overlap_policy=Overlap.ALLOW)])
    async with running_node(dsn, **HURRY):
        for moment in moments:
            await step(turned, moment)
    assert all(ran.at >= ran.fire for ran in turned.ran()), "early"
    return {name: [ran.fire for ran in turned.ran(name)] for name in policies}


async def test_half_past_two_on_the_day_that_has_none(
    database_dsn: str, database: Database
) -> None:
    policies = {"after": Dst(gap=Gap.FIRE_AFTER), "never": Dst(gap=Gap.SKIP)}
    moments = ["06:30", "06:59", "07:00", "07:01", "07:30", "08:30"]
    async with turning(database_dsn, database, utc("2026-03-08T06:20:00")) as turned:
        seen = await through(
            turned,
            database_dsn,
            "30 2 * * *",
            policies,
            [
                *(utc(f"2026-03-08T{moment}:00") for moment in moments),
                utc("2026-03-09T06:30:00"),
            ],
        )
    the_day_after = utc("2026-03-09T06:30:00")
    assert seen == {
        "after": [utc("2026-03-08T07:00:00"), the_day_after],
        "never": [the_day_after],
    }


async def test_half_past_one_on_the_day_that_has_two(database_dsn: str, database: Database) -> None:
    policies = {fold.value: Dst(fold=fold) for fold in Fold}
    moments = ["05:29", "05:30", "05:31", "06:00", "06:29", "06:30", "07:30"]
    async with turning(database_dsn, database, utc("2026-11-01T05:20:00")) as turned:
        seen = await through(
            turned,
            database_dsn,
            "30 1 * * *",
            policies,
            [
                *(utc(f"2026-11-01T{moment}:00") for moment in moments),
                utc("2026-11-02T06:30:00"),
            ],
        )
    first, second = utc("2026-11-01T05:30:00"), utc("2026-11-01T06:30:00")
    the_day_after = utc("2026-11-02T06:30:00")
    assert seen == {
        "first": [first, the_day_after],
        "second": [second, the_day_after],
        "both": [first, second, the_day_after],
    }
