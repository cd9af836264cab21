"""`gnomon cron` against the real API, without a node: what is planned stays where it is."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from tests.commands import Finished, api_running, gnomon_here

from gnomon.cli.cron.options import complete_timezone

URL = "http://127.0.0.1:9/"
FAR = ("--cron", "0 9 1 1 *", "--url", URL)


def cron(*arguments: str, stdin: str = "") -> Finished:
    return gnomon_here("cron", *arguments, stdin=stdin)


def added(name: str, *arguments: str) -> str:
    done = cron("add", name, *(arguments or FAR))
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.fixture
def server(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield


@pytest.mark.usefixtures("server")
def test_every_option_of_a_job_arrives(tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"day": "{{ fire_time | %Y-%m-%d }}"}')
    job = cron(
        "add", "report", "--cron", "30 2 * * *", "--url", URL, "--method", "PUT",
        "--header", "X-Kind: report", "--type", "reporting", "--payload", "@payload.json",
        "--timezone", "America/New_York", "--gap", "skip", "--fold", "both",
        "--overlap", "queue", "--missed", "backfill", "--missed-after", "1m",
        "--backfill-limit", "7", "--backfill-window", "7d", "--start", "2030-01-01T00:00:00Z",
        "--end", "2031-01-01T00:00:00Z", "--max-runs", "100", "--jitter", "90s", "--sla", "5m",
        "--priority", "high", "--delivery", "exactly_once", "--max-retries", "5",
        "--timeout", "10s", "--tag", "a", "--tag", "b", "--json",
    ).json  # fmt: skip
    retry_policy = job.pop("retry_policy")
    assert retry_policy["max_retries"] == 5
    expected = {
        "name": "report",
        "status": "active",
        "cron_expression": "30 2 * * *",
        "interval_seconds": None,
        "target": {"type": "http", "url": URL, "method": "PUT", "headers": {"X-Kind": "***"}},
        "task_type": "reporting",
        "payload_template": {"day": "{{ fire_time | %Y-%m-%d }}"},
        "timezone": "America/New_York",
        "dst": {"gap": "skip", "fold": "both"},
        "overlap_policy": "queue",
        "missed_run_policy": "backfill",
        "missed_after_seconds": 60.0,
        "backfill_limit": 7,
        "backfill_window_seconds": 7 * 86400.0,
        "start_date": "2030-01-01T00:00:00Z",
        "end_date": "2031-01-01T00:00:00Z",
        "max_runs": 100,
        "jitter_seconds": 90.0,
        "sla_seconds": 300.0,
        "priority": "HIGH",
        "delivery": "exactly_once",
        "timeout_seconds": 10.0,
        "tags": ["a", "b"],
        "source": None,
    }
    assert {name: job[name] for name in expected} == expected
    shown = cron("show", "report").out
    for text in (
        "gap skip, fold both", "1m30s", "7d", "0 of 100", "exactly_once", "PUT http",
        "At 02:30 every",
    ):  # fmt: skip
        assert text in shown


@pytest.mark.usefixtures("server")
def test_an_interval_a_function_and_a_name_that_is_taken() -> None:
    job_id = added("ping", "--every", "15m", "--from", "09:07", "--type", "ping")
    job = cron("show", job_id, "--json").json
    assert job["interval_seconds"] == 900
    assert job["interval_from"] == "09:07"
    assert (job["task_type"], job["target"]["function"]) == ("ping", "ping")
    assert job["latest_runs"][1:] == []

    again = cron("add", "ping", "--every", "30m", "--type", "ping")
    assert again.code == 1
    assert "ping" in again.err
    assert "--replace" in again.err

    for change in ("changed", "unchanged"):
        done = cron("add", "ping", "--every", "30m", "--type", "ping", "--replace")
        assert (done.code, done.out) == (0, f"{job_id}\n")
        assert f"ping {change}: Every 30 minutes (UTC); next " in done.err
    assert cron("add", "new", *FAR, "--replace").err.startswith("new created: ")


@pytest.mark.usefixtures("server")
def test_lists_are_filtered() -> None:
    added("one report", *FAR, "--tag", "x")
    added("two", "--cron", "@hourly", "--url", URL)
    added("three report", *FAR, "--tag", "x", "--tag", "y")
    cron("pause", "two")

    def listed(*filters: str) -> list[str]:
        return [job["name"] for job in cron("list", "--json", *filters).json["cron_jobs"]]

    assert listed() == ["three report", "two", "one report"]
    assert listed("--limit", "1") == ["three report"]
    assert listed("--name", "REPORT") == ["three report", "one report"]
    assert listed("--tag", "y") == ["three report"]
    assert listed("--paused") == ["two"]
    assert listed("--active", "--all") == ["three report", "one report"]
    assert listed("--source", "sync:x") == []
    cron("resume", "two")
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert listed("--next-before", soon.isoformat()) == ["two"]

    table = cron("list", "--name", "one").out.splitlines()
    assert table[0].split() == ["job", "status", "when", "zone", "next", "runs", "tags"]
    assert table[1].startswith("one report  active  0 9 1 1 *  UTC ")
    assert cron("list", "--name", "nobody").err == "nothing found\n"


@pytest.mark.usefixtures("server")
def test_pause_resume_and_remove() -> None:
    added("one")
    added("two")
    paused = cron("pause", "one", "nobody", "two", "--reason", "moving")
    assert (paused.code, paused.out) == (1, "one is paused\ntwo is paused\n")
    assert "nobody" in paused.err
    assert "moving" in cron("show", "one").out
    assert "as it stands, none of these will fire" in cron("preview", "one").err
    assert cron("resume", "two").out.startswith("two is active; next ")

    assert cron("rm", "one", stdin="n\n").code == 1
    assert cron("rm", "one", "two", "--yes").out == "one is removed\ntwo is removed\n"
    gone = cron("show", "one")
    assert (gone.code, gone.out) == (1, "")
    assert "there is no cron job" in gone.err


async def _start(dsn: str) -> None:
    """Make the job's only run its active one, as if it had been tried and waited for a retry."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "UPDATE gnomon.task SET attempt = 1;"
        "UPDATE gnomon.cron_job SET active_task_id = (SELECT id FROM gnomon.task)"
    )
    await connection.close()


@pytest.mark.usefixtures("server")
def test_trigger_and_its_runs(database_dsn: str) -> None:
    added("report")
    run_id, again = (
        cron("trigger", "report", "--idempotency-key", "k").out.strip() for _ in range(2)
    )
    assert run_id == again
    assert gnomon_here("tasks", "show", run_id, "--json").json["name"] == "report"
    (run,) = cron("runs", "report", "--json").json["runs"]
    assert (run["run_id"], run["kind"]) == (run_id, "manual")
    assert run_id in cron("runs", "report").out
    assert run_id in cron("show", "report").out

    asyncio.run(_start(database_dsn))
    overlapping = cron("trigger", "report")
    assert overlapping.code == 1
    assert f"its run {run_id} has not ended" in overlapping.err


@pytest.mark.usefixtures("server")
def test_backfill_asks_and_can_be_repeated() -> None:
    added("hourly", "--cron", "0 * * * *", "--timezone", "Asia/Kolkata", "--url", URL)
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T03:00:00Z")

    looked = cron("backfill", "hourly", *span, "--dry-run")
    assert looked.code == 0, looked.err
    # Full hours in India are half past in UTC.
    assert "Thu 2026-01-01 06:00:00+05:30  2026-01-01 00:30:00Z" in looked.out
    assert cron("runs", "hourly", "--json").json["runs"][1:] == []
    declined = cron("backfill", "hourly", *span, stdin="n\n")
    assert declined.code == 1
    assert "Run hourly for 3 fires?" in declined.err

    done = cron("backfill", "hourly", *span, "--json", "--yes").json
    assert [fire["fire_at"] for fire in done["planned"]] == [
        f"2026-01-01T{hour:02}:30:00Z" for hour in range(3)
    ]
    again = cron("backfill", "hourly", *span, stdin="")
    assert again.code == 0
    assert again.err == "3 in this range had a run already\nnothing to run\n"

    future = cron("backfill", "hourly", "--from", "2026-01-01", "--to", "2199-01-01", "--yes")
    assert future.code == 1
    assert "must not be in the future" in future.err
    many = cron("backfill", "hourly", *span, "--limit", "2", "--yes")
    assert many.code == 1


@pytest.mark.usefixtures("server")
def test_a_job_is_previewed_with_its_own_times() -> None:
    added("report", "--cron", "H H * * *", "--timezone", "Europe/Berlin", "--url", URL)
    added("ping", "--every", "1h", "--from", "09:07", "--url", URL)
    of_job = cron("preview", "report", "--count", "2", "--after", "2030-01-01T00:00:00Z", "--json")
    fires = of_job.json["fires"]
    assert len(fires) == 2
    assert fires[0]["local"].endswith("+01:00")
    assert cron("preview", "report", "--count", "1").out.startswith("At ")
    minutes = [fire["local"][14:16] for fire in cron("preview", "ping", "--json").json["fires"]]
    assert minutes == ["07"] * 10

    both = cron("preview", "report", "--cron", "@daily")
    assert both.code == 2
    assert "give a job, or a schedule" in both.err


@pytest.mark.usefixtures("server")
def test_names_are_completed_by_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("report", "recount", "ping"):
        added(name)

    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_GNOMON_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        return gnomon_here().out.split()

    assert completed("gnomon cron show re") == ["recount", "report"]
    monkeypatch.setenv("GNOMON_URL", "http://127.0.0.1:1")
    assert completed("gnomon cron show re") == []


def test_zones_are_completed() -> None:
    assert complete_timezone("europe/be")[0] == "Europe/Belfast"
    assert complete_timezone("New_Y") == ["America/New_York"]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", "http://127.0.0.1:1")


@pytest.mark.usefixtures("offline")
def test_an_expression_is_explained_without_a_server() -> None:
    done = cron(
        "explain", "30 2 * * *", "--timezone", "America/New_York", "--after", "2027-03-13T08:00Z",
        "--count", "2",
    )  # fmt: skip
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "At 02:30 every day (America/New_York)"
    assert lines[3].startswith("Sun 2027-03-14 03:00:00-04:00  2027-03-14 07:00:00Z  ")
    assert lines[4] == "Mon 2027-03-15 02:30:00-04:00  2027-03-15 06:30:00Z"
    assert cron("explain", "H * * * *").err.startswith("H is drawn from the id of the job")
    assert cron("explain", "0 9 * * THU").err == ""


@pytest.mark.usefixtures("offline")
def test_a_schedule_is_previewed_without_a_server() -> None:
    skipping = cron(
        "preview", "--cron", "30 2 * * *", "--timezone", "America/New_York", "--gap", "skip",
        "--after", "2027-03-13T08:00:00Z", "--count", "1", "--json",
    )  # fmt: skip
    assert [fire["fire_at"] for fire in skipping.json["fires"]] == ["2027-03-15T06:30:00Z"]
    interval = cron("preview", "--every", "90m", "--from", "09:07", "--count", "3")
    assert interval.out.startswith("Every 90 minutes, from 09:07 (UTC)")
    over = cron("preview", "--cron", "@daily", "--end", "2020-01-01")
    assert over.err == "it never fires again\n"


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["explain", "0 9 * *"], 1, "has 4 fields; write five"),
        (["explain", "@daily", "--timezone", "Berlin"], 1, "write Europe/Berlin"),
        (["preview"], 2, "give a job, or a schedule"),
        (["preview", "--cron", "@daily", "--every", "5m"], 2, "either --cron"),
        (["preview", "--cron", "@daily", "--from", "09:07"], 2, "--from is where --every counts"),
        (["preview", "--every", "soon"], 2, "is not a duration like"),
        (["preview", "--cron", "@daily", "--count", "0"], 2, "--count"),
        (["add", "x", "--cron", "@daily"], 2, "or the handler's --type"),
        (["add", "x", "--url", URL], 2, "say when"),
        (["add", "x", *FAR, "--overlap", "never"], 2, "'never' is not one of"),
        (["add", "x", *FAR, "--payload", "{"], 2, "--payload is not JSON"),
        (["add", "x", *FAR, "--payload", "@none.json"], 2, "none.json cannot be read"),
        (["add", "x", "--every", "5m", "--type", "f", "--method", "PUT"], 2, "are for URLs"),
        (["add", "x", *FAR], 1, "the API does not answer at http://127.0.0.1:1"),
        (["backfill", "x", "--from", "2026-01-01"], 2, "--to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrongly(arguments: list[str], code: int, message: str) -> None:
    done = cron(*arguments)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
