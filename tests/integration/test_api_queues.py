"""Queues, and tasks that may be preempted, over HTTP and in the commands."""

from pathlib import Path
from typing import Any

import pytest
from tests.commands import api_running, gnomon_here
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.cron_calls import JOB, JOBS, created
from tests.integration.support import Connection

DEAD = "/api/v1/dead-letters"
MAILS = {"queue": "mails", "preemptible": True}
FIELDS = ("queue", "preemptible")


def both(document: Any) -> tuple[Any, ...]:
    return tuple(document[field] for field in FIELDS)


def ids(page: Any, name: str = "tasks") -> list[str]:
    return [task["task_id"] for task in page[name]]


async def test_a_task_keeps_its_queue_and_whether_it_may_be_preempted(api: Api) -> None:
    plain, mail = await submitted(api), await submitted(api, LATER | MAILS)
    assert (both(plain), both(mail)) == ((None, False), ("mails", True))
    path = f"{TASKS}/{mail['task_id']}"
    assert await call(api, "GET", path, 200) | {"warnings": []} == mail
    assert ids(await call(api, "GET", f"{TASKS}?queue=mails", 200)) == [mail["task_id"]]
    assert ids(await call(api, "GET", f"{TASKS}?queue=others", 200)) == []
    await call(api, "GET", f"{TASKS}?queue=", 422)

    changed = await call(api, "PATCH", path, 200, {"queue": "post", "name": "x"})
    assert both(changed) == ("post", True)
    assert both(await call(api, "PATCH", path, 200, {"preemptible": False})) == ("post", False)
    assert both(await call(api, "PATCH", path, 200, {"name": None})) == ("post", False)
    assert both(await call(api, "PATCH", path, 200, {"queue": None})) == (None, False)

    facts = (await call(api, "GET", f"{TASKS}/{plain['task_id']}/explain", 200))["facts"]
    assert not any("preempted" in fact or "queue" in fact for fact in facts)
    await call(api, "PATCH", path, 200, MAILS)
    facts = (await call(api, "GET", f"{path}/explain", 200))["facts"]
    assert {"of queue 'mails'", "may be preempted by a CRITICAL task"} <= set(facts)


async def test_a_finished_task_keeps_them_too(api: Api) -> None:
    mail = await submitted(api, LATER | MAILS)
    done = await call(api, "POST", f"{TASKS}/{mail['task_id']}/cancel", 200)
    assert both(done) == ("mails", True)
    assert ids(await call(api, "GET", f"{TASKS}?queue=mails", 200)) == [mail["task_id"]]
    again = await call(api, "POST", f"{TASKS}/{mail['task_id']}/retry", 202)
    assert both(again) == ("mails", True)


async def test_dead_letters_are_chosen_by_their_queue(api: Api, connection: Connection) -> None:
    plain, mail = await submitted(api), await submitted(api, LATER | MAILS)
    for task in (plain, mail):
        await put(connection, task["task_id"], "state = 4, attempt = 1, last_error = 'no'")
    page = await call(api, "GET", f"{DEAD}?queue=mails", 200)
    assert ids(page, "dead_letters") == [mail["task_id"]]
    asked = {"action": "retry", "filter": {"queue": "mails"}, "dry_run": True}
    found = await call(api, "POST", "/api/v1/bulk-operations", 200, asked)
    assert (found["total"], found["examples"]) == (1, [mail["task_id"]])


async def test_what_is_called_at_most_once_cannot_be_preempted(api: Api) -> None:
    once = LATER | {"delivery": "at_most_once"}
    task = await submitted(api, once)
    path = f"{TASKS}/{task['task_id']}"
    job = await created(api, delivery="at_most_once")
    for problem in (
        await call(api, "POST", TASKS, 422, once | {"preemptible": True}),
        await call(api, "PATCH", path, 422, {"preemptible": True}),
        await call(api, "POST", JOBS, 422, JOB | {"delivery": "at_most_once"} | MAILS),
        await call(api, "PATCH", f"{JOBS}/{job['cron_job_id']}", 422, {"preemptible": True}),
    ):
        assert [error["pointer"] for error in problem["errors"]] == ["/preemptible"]
    assert both(await call(api, "PATCH", path, 200, {"preemptible": False})) == (None, False)


async def test_the_runs_of_a_cron_job_have_what_it_declares(api: Api) -> None:
    job = await created(api, **MAILS)
    assert both(job) == ("mails", True)
    run = await call(api, "POST", f"{JOBS}/report/trigger", 202)
    assert both(await call(api, "GET", f"{TASKS}/{run['run_id']}", 200)) == ("mails", True)

    put_to = {name: value for name, value in JOB.items() if name != "name"}
    answer = await call(api, "PUT", f"{JOBS}/report", 200, put_to)
    assert answer["fields"] == {
        "queue": {"from": "mails", "to": None},
        "preemptible": {"from": True, "to": False},
    }
    assert both(await call(api, "PATCH", f"{JOBS}/report", 200, {"queue": "post"})) == (
        "post",
        False,
    )
    assert both(await call(api, "PATCH", f"{JOBS}/report", 200, {"queue": None})) == (None, False)


def test_the_commands_tell_and_take_them(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    mails = ("--queue", "mails", "--preemptible")
    target = "http://127.0.0.1:9/"
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        other = gnomon_here("submit", target, "--delay", "1h").out.strip()
        mail = gnomon_here("submit", target, "--delay", "1h", *mails).out.strip()
        shown = gnomon_here("tasks", "show", mail).out
        assert "queue" in shown
        assert "preemptible" in shown
        assert "preemptible" not in gnomon_here("tasks", "show", other).out
        listed = gnomon_here("tasks", "list", "--queue", "mails").out
        assert mail in listed
        assert other not in listed

        job = ("cron", "add", "report", "--cron", "0 0 29 2 *", "--url", target, *mails, "--json")
        assert both(gnomon_here(*job).json) == ("mails", True)
        assert "mails" in gnomon_here("cron", "show", "report").out
        Path("jobs.toml").write_text(
            '[[job]]\nname = "post"\ncron_expression = "0 0 29 2 *"\n'
            f'callback_url = "{target}"\nqueue = "mails"\npreemptible = true\n'
        )
        assert gnomon_here("cron", "sync", "jobs.toml", "--yes").code == 0
        assert both(gnomon_here("cron", "show", "post", "--json").json) == ("mails", True)

        gnomon_here("tasks", "cancel", other)
        dead = ("dead", "retry", "--all", "--queue", "mails", "--yes")
        assert gnomon_here(*dead).out.strip() == "0 retried"
        assert gnomon_here("dead", "list", "--queue", "mails", "--json").json == {
            "dead_letters": []
        }
