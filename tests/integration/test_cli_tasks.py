"""The task commands against the real API, without a node: nothing runs, so nothing moves."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.commands import Finished, api_running, gnomon, gnomon_here

from gnomon.model.outcomes.fingerprint import fingerprint

URL = "http://127.0.0.1:9/"
NOBODY = "01990000-0000-7000-8000-000000000000"


class Cli:
    """The command line with an API behind it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def __call__(self, *arguments: str, stdin: str = "") -> Finished:
        return gnomon_here(*arguments, stdin=stdin)

    def submit(self, *arguments: str) -> str:
        done = self("submit", URL, *arguments)
        assert done.code == 0, done.err
        return done.out.strip()

    def status(self, task_id: str) -> str:
        return str(self("tasks", "show", task_id, "--json").json["status"])

    def kill_all(self, fingerprint: int | None = None) -> None:
        """Make every task a dead letter, as if its retries were spent."""

        async def update() -> None:
            connection = await asyncpg.connect(self._dsn)
            await connection.execute(
                "UPDATE gnomon.task SET state = 4, attempt = 1, last_error = 'broken', "
                "fingerprint = $1",
                fingerprint,
            )
            await connection.close()

        asyncio.run(update())

    def fail(self, task_id: str, *tracebacks: str | None) -> None:
        """Note a failed execution for each of these."""

        async def insert() -> None:
            connection = await asyncpg.connect(self._dsn)
            await connection.executemany(
                "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, "
                "finished_at, error, traceback) "
                "VALUES ('default', $1, $2, $2::bigint, 1, gnomon.now(), 'ValueError', $3)",
                [(task_id, number, text) for number, text in enumerate(tracebacks, 1)],
            )
            await connection.close()

        asyncio.run(insert())


@pytest.fixture
def cli(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield Cli(database_dsn)


def test_submit_list_and_show(cli: Cli) -> None:
    first = cli.submit("--delay", "1h", "--type", "a", "--tag", "x", "--priority", "low")
    second = cli.submit("--at", "2040-01-31T09:00:00Z", "--type", "b", "--tag", "x", "--tag", "y")
    document = cli(
        "submit", "--type", "f", "--payload-file", "-", "--max-retries", "7", "--json",
        stdin='{"n": [1, 2]}',
    ).json  # fmt: skip
    assert document["task_type"] == "f"
    assert document["target"] == {"type": "python", "function": "f"}
    assert document["payload"] == {"n": [1, 2]}
    assert document["retry_policy"]["max_retries"] == 7

    def listed(*filters: str) -> list[str]:
        tasks = cli("tasks", "list", "--json", *filters).json["tasks"]
        return [task["task_id"] for task in tasks]

    assert listed() == [document["task_id"], second, first]
    counted = cli("tasks", "stats", "--json").json
    assert counted["statuses"]["SCHEDULED"] == {"count": 2, "capped": False}
    assert [each["task_type"] for each in counted["task_types"]] == ["f"]
    lines = cli("tasks", "stats", "--type", "f").out.splitlines()
    assert ["READY", "1"] in [line.split() for line in lines]
    assert listed("--limit", "1") == [document["task_id"]]
    assert listed("--tag", "x") == [second, first]
    assert listed("--type", "a", "--priority", "LOW", "--status", "scheduled") == [first]
    assert listed("--due-after", "2039-12-31T23:59:59+01:00") == [second]

    table = cli("tasks", "list", "--type", "b").out.splitlines()
    assert table[1].split()[:6] == [second, "SCHEDULED", "b", "MEDIUM", "2040-01-31", "09:00:00Z"]
    shown = cli("tasks", "show", first).out
    assert f"POST {URL}" in shown
    assert "SCHEDULED" in shown


def test_the_delivery_mode_is_typed_and_shown(cli: Cli) -> None:
    once = cli.submit("--delay", "1h", "--delivery", "at_most_once")
    assert "at_most_once" in cli("tasks", "show", once).out
    assert "at_least_once" in cli("tasks", "show", cli.submit("--delay", "1h")).out
    refused = cli("submit", URL, "--delivery", "at_most_once", "--max-retries", "1")
    assert refused.code == 1
    assert "never tried again" in refused.err
    unknown = cli("submit", URL, "--delivery", "twice")
    assert unknown.code == 2
    assert "exactly_once" in unknown.err


def test_the_same_idempotency_key_is_the_same_task(cli: Cli) -> None:
    first = cli.submit("--delay", "1h", "--idempotency-key", "k")
    assert cli.submit("--delay", "1h", "--idempotency-key", "k") == first
    other = cli("submit", URL, "--delay", "2h", "--idempotency-key", "k")
    assert other.code == 1
    assert "was used before with a different request" in other.err


def test_pause_resume_cancel_retry(cli: Cli) -> None:
    one, two = (cli.submit("--delay", "1h") for _ in range(2))
    assert cli("tasks", "pause", one, two).out == f"{one} is PAUSED\n{two} is PAUSED\n"
    assert cli("tasks", "resume", two).code == 0

    partly = cli("tasks", "cancel", NOBODY, one)
    assert partly.code == 1
    assert partly.out == f"{one} is CANCELLED\n"
    assert NOBODY in partly.err
    assert [cli.status(one), cli.status(two)] == ["CANCELLED", "SCHEDULED"]

    refused = cli("tasks", "pause", one)
    assert refused.code == 1
    assert "CANCELLED" in refused.err

    again = cli("tasks", "retry", one)
    assert again.code == 0, again.err
    assert again.out.startswith(f"{one} runs again as ")


def test_transitions_of_a_type_that_logs_them(cli: Cli) -> None:
    plain = cli.submit("--type", "mail", "--delay", "1h")
    assert cli("tasks", "transitions", plain).err == "nothing found\n"
    assert cli("types", "set", "mail", "--log-transitions").code == 0
    task_id = cli.submit("--type", "mail", "--delay", "1h")
    assert cli("tasks", "cancel", task_id).code == 0
    assert cli("tasks", "delete", task_id, "--yes").code == 0
    shown = cli("tasks", "transitions", task_id).out.splitlines()
    assert shown[0].split() == ["at", "from", "to", "attempt"]  # no node has run it
    assert [line.split()[2:] for line in shown[1:]] == [
        ["(new)", "WAITING", "0"],
        ["WAITING", "CANCELLED", "0"],
        ["CANCELLED", "(deleted)", "0"],
    ]
    assert max(map(len, shown)) <= 80
    found = cli("tasks", "transitions", task_id, "--json").json["transitions"]
    assert [each["number"] for each in found] == [1, 2, 3]
    assert cli("tasks", "transitions", NOBODY).code == 1


def test_explain_and_delete(cli: Cli) -> None:
    task_id = cli.submit("--delay", "1h")
    explained = cli("tasks", "explain", task_id)
    assert explained.code == 0, explained.err
    summary = cli("tasks", "explain", task_id, "--json").json["summary"]
    # The seconds that are left differ between the two calls.
    assert explained.out.startswith(summary.partition(", in ")[0])

    assert cli("tasks", "delete", task_id, stdin="n\n").code == 1
    assert cli("tasks", "delete", task_id, "--yes").out == f"{task_id} is deleted\n"
    assert cli("tasks", "show", task_id).code == 1
    assert cli("tasks", "explain", task_id).code == 1


def test_the_traceback_of_the_last_failure_is_shown(cli: Cli) -> None:
    task_id = cli.submit("--delay", "1h")
    cli.fail(task_id, "in first", "in second\n  line 2 \x1b[2J", None)
    shown = cli("tasks", "show", task_id).out
    assert "traceback of attempt 2:\nin second\n  line 2 \\u001b[2J\n" in shown
    assert "in first" not in shown
    shown = cli("tasks", "show", task_id, "--traceback").out
    assert shown.index("traceback of attempt 1:\nin first") < shown.index("attempt 2:\nin second")
    document = cli("tasks", "show", task_id, "--json").json
    assert [each["traceback"] for each in document["executions"]] == [
        "in first", "in second\n  line 2 \x1b[2J", None,
    ]  # fmt: skip


def test_what_the_api_refuses(cli: Cli) -> None:
    done = cli("tasks", "show", NOBODY)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("gnomon: ")
    for task_id in ("nonsense", "../tasks", ""):
        done = cli("tasks", "show", task_id)
        assert (done.code, done.out) == (2, "")
        assert "is no id of a task" in done.err
    done = cli("submit", "ftp://example.com/")
    assert done.code == 1
    assert "/target" in done.err
    assert done.err.count("must start with http://") == 1


def test_dead_letters(cli: Cli) -> None:
    ids = [cli.submit("--type", kind, "--delay", "1h") for kind in ("a", "a", "b", "b")]
    cli.kill_all()

    def dead(*filters: str) -> list[str]:
        letters = cli("dead", "list", "--json", *filters).json["dead_letters"]
        return sorted(letter["task_id"] for letter in letters)

    assert dead() == sorted(ids)
    assert dead("--type", "b") == sorted(ids[2:])
    assert "broken" in cli("dead", "show", ids[0]).out
    assert cli("dead", "archive", ids[2]).out == f"{ids[2]} is archived\n"
    assert cli("dead", "discard", ids[3]).out == f"{ids[3]} is discarded\n"
    assert cli("dead", "discard", NOBODY).code == 1

    declined = cli("dead", "retry", "--all", stdin="n\n")
    assert declined.code == 1
    assert dead() == sorted(ids[:2])
    assert cli("dead", "retry", "--all", "--type", "b", "--yes").out == "0 retried\n"
    assert cli("dead", "retry", ids[0]).out == f"{ids[0]} is READY\n"
    begun = cli("dead", "retry", "--all", "--type", "a", "--yes", "--no-wait", "--json").json
    assert (begun["status"], begun["total"], begun["done"]) == ("RUNNING", 1, 0)
    operation = begun["operation_id"]
    assert operation in cli("bulk", "list").out
    assert "0 of 1" in cli("bulk", "show", operation).out
    assert cli("bulk", "stop", operation).out == f"{operation} is STOPPED\n"
    assert dead() == [ids[1]]


def test_cancel_all_that_match(cli: Cli) -> None:
    cli.submit("--tag", "x", "--delay", "1h")
    declined = cli("tasks", "cancel", "--all", "--tag", "x", stdin="n\n")
    assert declined.code == 1
    assert "Cancel 1 task with tag x?" in declined.err
    begun = cli("tasks", "cancel", "--all", "--tag", "x", "--yes", "--no-wait", "--json").json
    assert (begun["action"], begun["filter"], begun["total"]) == ("cancel", {"tag": "x"}, 1)
    assert "choose among --all" in cli("tasks", "cancel", NOBODY, "--tag", "x").err


def test_reschedule_one_or_all_that_match(cli: Cli) -> None:
    task_id = cli.submit("--tag", "x", "--delay", "1h")
    moved = cli("tasks", "reschedule", task_id, "--at", "2040-01-01T00:00:00Z")
    assert moved.out == f"{task_id} is SCHEDULED, due 2040-01-01T00:00:00Z\n"
    at = ("--at", "2041-01-01T00:00:00Z")
    begun = cli("tasks", "reschedule", "--all", "--tag", "x", *at, "-y", "--no-wait", "--json").json
    assert (begun["action"], begun["execute_at"]) == ("reschedule", "2041-01-01T00:00:00Z")
    assert (begun["filter"], begun["total"]) == ({"tag": "x"}, 1)


def test_discard_all_with_an_error(cli: Cli) -> None:
    cli.submit("--delay", "1h")
    cli.kill_all()
    every = ("dead", "discard", "--all", "--error")
    assert cli(*every, "other", "--yes").out == "0 discarded\n"
    begun = cli(*every, "broken", "--yes", "--no-wait", "--json").json
    assert (begun["action"], begun["filter"], begun["total"]) == ("discard", {"error": "broken"}, 1)


def test_groups_of_dead_letters_and_who_resolved_them(cli: Cli) -> None:
    ids = [cli.submit("--type", kind, "--delay", "1h") for kind in ("a", "a", "b")]
    cli.kill_all(fingerprint=fingerprint("a", "broken"))
    (group,) = cli("dead", "groups", "--json").json["groups"]
    assert (group["count"], group["error"]) == (3, "broken")
    told = cli("dead", "groups").out
    assert group["fingerprint"] in told
    assert "broken" in told
    every = ("dead", "archive", "--all", "--fingerprint", group["fingerprint"], "--yes")
    begun = cli(*every, "--note", "all", "--no-wait", "--json").json
    assert (begun["total"], begun["note"]) == (3, "all")
    assert begun["filter"] == {"fingerprint": group["fingerprint"]}
    cli("bulk", "stop", begun["operation_id"])
    assert cli("dead", "archive", ids[0], "--note", "paid by hand").code == 0
    assert cli("dead", "discard", ids[1]).code == 0
    assert "paid by hand" in cli("dead", "list", "--resolved").out
    letters = cli("dead", "list", "--resolved", "--json").json["dead_letters"]
    assert [(each["task_id"], each["resolution"]) for each in letters] == [
        (ids[1], "discarded"),
        (ids[0], "archived"),
    ]
    shown = cli("dead", "show", ids[0]).out
    assert "paid by hand" in shown
    assert "archived" in shown
    left = cli("dead", "list", "--fingerprint", group["fingerprint"], "--json").json
    assert [each["task_id"] for each in left["dead_letters"]] == [ids[2]]
    refused = cli("dead", "list", "--fingerprint", "nonsense")
    assert refused.code == 1
    assert "fingerprint" in refused.err


def test_a_second_api_on_the_same_port(cli: Cli, database_dsn: str, tmp_path: Path) -> None:
    port = os.environ["GNOMON_URL"].rpartition(":")[2]
    done = gnomon("api", "--port", port, cwd=tmp_path, env={"DATABASE_URL": database_dsn})
    assert done.code == 1
    assert f"the API cannot listen on 127.0.0.1:{port}" in done.err
