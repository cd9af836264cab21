"""Cron jobs are declared beside their handlers, and checked there."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
import pytest
from tests.unit.sdk.claimed import executed

from gnomon.client.types.cron import CronJobSpec
from gnomon.cron.job import Missed, Overlap
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring import cron
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.executing.context import TaskContext
from gnomon.usecases.checks import request_fields
from gnomon.usecases.cron.cron_requests import CreateCronJob
from gnomon.usecases.cron.definitions import definition_of


async def test_a_function_alone_becomes_a_handler_with_a_job() -> None:
    app = Gnomon()

    @app.cron("0 9 * * MON-FRI", timezone="America/New_York", overlap="skip", timeout="5m")
    async def report(ctx: TaskContext) -> int:
        return ctx.attempt

    (job,) = app.jobs
    assert (job.name, job.handler, job.renamed_from) == ("report", "report", None)
    assert job.spec == CronJobSpec(
        name="report",
        task_type="report",
        cron_expression="0 9 * * MON-FRI",
        timezone="America/New_York",
        overlap_policy=Overlap.SKIP,
        timeout_seconds=300.0,
    )
    assert report.defaults.timeout_seconds == 300.0
    assert await executed(app, "report") == 1


def test_jobs_stack_on_a_handler_and_take_its_options_where_they_say_nothing() -> None:
    app = Gnomon()

    @app.every("10m", name="often", priority="low", payload={"size": 3}, jitter=0)
    @app.cron("@daily", name="nightly", timezone=ZoneInfo("Europe/Berlin"), missed="skip")
    @app.task(retries=2, priority="high", expiry="1h", jitter="5m", process=True)
    def clean(size: int = 10) -> None: ...

    nightly, often = app.jobs
    assert nightly.spec == CronJobSpec(
        name="nightly",
        task_type="clean",
        cron_expression="@daily",
        timezone="Europe/Berlin",
        missed_run_policy=Missed.SKIP,
        retry_policy=RetryPolicy(max_retries=2),
        priority=Priority.HIGH,
        jitter_seconds=300.0,
    )
    assert often.spec == CronJobSpec(
        name="often",
        task_type="clean",
        interval_seconds=600.0,
        payload_template={"size": 3},
        retry_policy=RetryPolicy(max_retries=2),
        priority=Priority.LOW,
        jitter_seconds=0.0,
    )
    assert list(app.handlers) == ["clean"]


def test_every_option_reaches_the_job_as_the_api_reads_it() -> None:
    app = Gnomon()
    start = datetime(2030, 1, 1, tzinfo=UTC)

    @app.every(
        timedelta(hours=1),
        name="all",
        timezone="UTC",
        payload={"at": "{{fire_time}}", "tags": []},
        overlap="queue",
        missed="backfill",
        missed_after="1m",
        backfill_limit=5,
        backfill_window="1d",
        start=start,
        end=start + timedelta(days=9),
        max_runs=7,
        jitter=30,
        sla="2m",
        phase="00:07",
        renamed_from="former",
        tags=["x"],
    )
    async def work(at: datetime, tags: list[str]) -> None: ...

    (job,) = app.jobs
    assert job.renamed_from == "former"
    asked = msgspec.json.decode(msgspec.json.encode(job.spec), type=CreateCronJob)
    definition = definition_of(asked, job.name, 10_000)
    assert definition.backfill_window_seconds == 86400
    assert definition.interval_from == "00:07"
    assert definition.sla_seconds == 120
    assert definition.tags == ("x",)
    assert definition.max_runs == 7


@pytest.mark.parametrize(
    ("expression", "options", "told"),
    [
        ("0 25 * * *", {}, "cron job 'work': .*25"),
        ("not cron", {}, "cron job 'work': "),
        (
            "@daily",
            {"timezone": "Berlin"},
            "cron job 'work': there is no time zone 'Berlin'; write Europ",
        ),
        ("@daily", {"timezone": 1}, "timezone=1: must be the name of a zone"),
        ("@daily", {"overlap": "both"}, "overlap='both': must be one of 'skip', 'queue'"),
        ("@daily", {"backfill_limit": 5}, "backfill_limit: is only for the missed_run_policy"),
        ("@daily", {"backfill_limit": 0}, "backfill_limit=0: must be a number from 1 to 10000"),
        ("@daily", {"start": datetime(2030, 1, 1)}, "start=.* must be a datetime with a zone"),  # noqa: DTZ001
        ("@daily", {"jitter": "2d"}, "jitter='2d': must be between 0 s and 86400 s"),
        ("@daily", {"phase": "09:00"}, "phase: belongs to interval_seconds"),
        ("@daily", {"payload": {"n": "x"}}, "payload: work: argument n: Expected `int`"),
        ("@daily", {"payload": {"n": "{{now}}"}}, "payload: .*now"),
        ("@daily", {"payload": {1, object()}}, "payload=.*cannot be written as JSON"),
        ("@daily", {"name": "a/b"}, "name: must not contain /"),
        ("@daily", {"name": 5}, "name: must be text"),
        ("@daily", {"process": True}, "process= is an option of the handler: write it in @app.tas"),
        ("@daily", {"timezon": "UTC"}, "there is no option timezon=; did you mean timezone="),
        ("@daily", {"delivery": "at_most_once", "retries": 1}, "retries: must be 0"),
    ],
)
def test_a_wrong_job_is_refused_where_it_is_declared(
    expression: str, options: Any, told: str
) -> None:
    app = Gnomon()

    async def work(n: int = 1) -> None: ...

    with pytest.raises(InvalidHandler, match=told):
        app.cron(expression, **options)(work)
    assert (app.jobs, app.handlers) == ((), {})


def test_a_handler_that_needs_arguments_needs_a_payload() -> None:
    async def work(n: int) -> None: ...

    with pytest.raises(InvalidHandler, match=r"payload: work: argument n is missing"):
        Gnomon().cron("@daily")(work)


def test_two_jobs_of_one_name_are_refused() -> None:
    app = Gnomon()

    @app.cron("@daily")
    async def work() -> None: ...

    with pytest.raises(InvalidHandler, match="two cron jobs are called 'work'"):
        app.cron("@hourly")(work)
    with pytest.raises(InvalidHandler, match="is of another app"):
        Gnomon().cron("@hourly")(work)
    for bare in (app.cron, app.every):
        with pytest.raises(InvalidHandler, match=r"is no cron expression|is not a duration"):
            bare(cast("Any", test_two_jobs_of_one_name_are_refused))
    with pytest.raises(InvalidHandler, match="every: 'often' is not a duration"):
        app.every("often")
    with pytest.raises(InvalidHandler, match=r"cron job 'fast': an interval of 0.5 seconds"):
        app.every(0.5, name="fast")(work)


def test_the_limits_are_those_of_the_api() -> None:
    def meta(annotated: Any) -> msgspec.Meta:
        found = annotated.__metadata__[0]
        assert isinstance(found, msgspec.Meta)
        return found

    assert meta(request_fields.JobName).max_length == cron.MOST_NAME_CHARACTERS
    assert meta(request_fields.BackfillLimit).le == cron.MOST_BACKFILLED
    assert meta(request_fields.MaxRuns).le == cron.MOST_RUNS
    assert meta(request_fields.Jitter).le == meta(request_fields.MissedAfter).le == cron.ONE_DAY
