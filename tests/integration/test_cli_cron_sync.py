"""`gnomon cron sync` against the real API: repeatable, and safe when it is wrong or breaks off."""

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.commands import PROGRAM, TIMEOUT_SECONDS, Finished, api_running, gnomon_here
from tests.waiting import eventually_sync

URL = "http://127.0.0.1:9/"

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture
def server(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield


def cron(*arguments: str, stdin: str = "") -> Finished:
    return gnomon_here("cron", *arguments, stdin=stdin)


def file_of(*jobs: str, top: str = "") -> None:
    """Write jobs.toml: one job a line, `name` or `name; further = "fields"`."""
    text = top + "\n"
    for job in jobs:
        name, *fields = job.split("; ")
        given = "\n".join(fields)
        when = "" if "cron_expression" in given else 'cron_expression = "0 9 1 1 *"'
        text += f'[[job]]\nname = "{name}"\ncallback_url = "{URL}"\n{when}\n{given}\n'
    Path("jobs.toml").write_text(text if jobs else f"job = []\n{text}")


def sync(*arguments: str) -> Finished:
    return cron("sync", "jobs.toml", *arguments)


def synced(*arguments: str) -> dict[str, str]:
    """Sync without asking; what became of each job."""
    done = sync("--yes", "--json", *arguments)
    assert done.code == 0, done.err
    assert all(job["done"] for job in done.json["jobs"])
    return {job["name"]: job["change"] for job in done.json["jobs"]}


def jobs(*filters: str) -> dict[str, Any]:
    found = cron("list", "--all", "--json", *filters).json["cron_jobs"]
    return {job["name"]: job for job in found}


def test_a_sync_makes_it_so_and_the_next_finds_nothing_to_do() -> None:
    file_of("one", 'two; tags = ["x"]', top='set = "shop"\n[defaults]\ntimezone = "Europe/Berlin"')
    looked = sync("--dry-run")
    assert looked.code == 0
    assert looked.out.splitlines() == ["+ one  to be created", "+ two  to be created"]
    assert looked.err == "set 'shop': 2 to create\n"
    assert jobs() == {}

    assert synced() == {"one": "created", "two": "created"}
    assert jobs().keys() == jobs("--source", "sync:shop").keys() == {"one", "two"}
    assert jobs()["one"]["timezone"] == "Europe/Berlin"
    assert synced() == {"one": "unchanged", "two": "unchanged"}
    again = sync()  # neither a terminal nor --yes
    assert (again.code, again.out, again.err) == (0, "", "set 'shop': 2 unchanged\n")


def test_what_changes_is_shown_from_and_to_and_the_job_stays_the_same() -> None:
    file_of('one; tags = ["x"]; retry_policy = {max_retries = 5}', "two")
    synced()
    before = jobs()
    cron("pause", "one", "--reason", "moving")
    file_of('one; cron_expression = "@daily"; retry_policy = {max_retries = 6}', "two")
    done = sync("--yes")
    assert done.out.splitlines() == [
        "~ one  to be changed",
        '    cron_expression: "0 9 1 1 *" -> "@daily"',
        "    retry_policy.max_retries: 5 -> 6",
        '    tags: ["x"] -> []',
        "change one: done",
    ]
    after = jobs()["one"]
    assert after["cron_job_id"] == before["one"]["cron_job_id"]
    assert (after["status"], after["pause_reason"]) == ("paused", "moving")
    assert jobs()["two"] == before["two"]


def test_only_pruning_removes_and_only_what_is_of_the_same_set() -> None:
    file_of("a", "b", top='set = "mine"')
    synced()
    assert synced("--set", "other") == {"a": "changed", "b": "changed"}
    file_of("a", "b", "c", top='set = "mine"')
    assert synced() == {"a": "changed", "b": "changed", "c": "created"}
    cron("add", "by hand", "--cron", "@daily", "--url", URL)
    file_of("b", top='set = "mine"')

    assert synced() == {"b": "unchanged", "a": "left_alone", "c": "left_alone"}
    kept = sync()
    assert kept.code == 0
    assert "? a  not in the file; --prune removes it" in kept.out
    assert synced("--prune", "--set", "other") == {"b": "changed"}
    assert jobs().keys() == {"a", "b", "c", "by hand"}
    assert synced("--prune") == {"b": "changed", "a": "removed", "c": "removed"}
    file_of(top='set = "mine"')
    assert synced("--prune") == {"b": "removed"}
    assert jobs().keys() == {"by hand"}


def test_a_rename_keeps_the_job() -> None:
    file_of("old", "plain")
    synced()
    cron("add", "by hand", "--cron", "@daily", "--url", URL)
    ids = {name: job["cron_job_id"] for name, job in jobs().items()}
    file_of(
        'new; renamed_from = "old"; tags = ["x"]',
        'simple; renamed_from = "plain"',
        'mine; renamed_from = "by hand"; cron_expression = "@daily"',
        'fresh; renamed_from = "never was"',
    )
    assert synced("--prune") == {
        "new": "renamed", "simple": "renamed", "mine": "renamed", "fresh": "created",
    }  # fmt: skip
    after = jobs()
    assert after.keys() == {"new", "simple", "mine", "fresh"}
    assert after["new"]["cron_job_id"] == ids["old"]
    assert after["new"]["tags"] == ["x"]
    assert after["simple"]["cron_job_id"] == ids["plain"]
    assert (after["mine"]["cron_job_id"], after["mine"]["source"]) == (
        ids["by hand"], "sync:default",
    )  # fmt: skip
    # The file stays as it is: what was renamed stays renamed.
    assert set(synced("--prune").values()) == {"unchanged"}


def test_a_rename_that_finds_both_names() -> None:
    file_of("old")
    synced()
    cron("add", "new", "--cron", "@daily", "--url", URL)
    file_of('new; renamed_from = "old"')
    refused = sync("--yes")
    assert refused.code == 1
    assert "job 'new' exists, and so does 'old'" in refused.err
    assert jobs()["new"]["source"] is None
    # A sync that may remove knows what to do: that is what a rollback and its return leave.
    assert synced("--prune") == {"new": "changed", "old": "removed"}


def test_a_bad_file_changes_nothing() -> None:
    file_of("good", 'bad; timezone = "Berlin"', 'worse; overlap = "skip"')
    refused = sync("--yes")
    assert refused.code == 1
    assert refused.err.splitlines() == [
        "gnomon: jobs.toml: nothing was changed: the file cannot be used",
        "  job 'bad': timezone: there is no time zone 'Berlin'; write Europe/Berlin",
        "  job 'worse': unknown field 'overlap'; did you mean 'overlap_policy'?",
    ]
    # What only the server can know is found before anything is changed, too.
    file_of("good", f'large; payload_template = "{"x" * 300_000}"')
    refused = sync("--yes")
    assert refused.code == 1
    assert "job 'large': Request too large" in refused.err
    assert jobs() == {}


def test_without_a_terminal_it_must_be_told_and_looking_tells_by_its_exit_code() -> None:
    file_of("one")
    untold = sync()
    assert untold.code == 1
    assert untold.out == "+ one  to be created\n"
    assert "there is no terminal to ask on; add --yes" in untold.err
    assert sync("--dry-run", "--exit-code").code == 3
    assert jobs() == {}
    assert cron("sync", "-", "--yes", stdin=Path("jobs.toml").read_text()).code == 0
    assert sync("--dry-run", "--exit-code").code == 0
    assert sync("--exit-code").code == 2
    assert cron("sync", "none.toml").code == 2


class Terminal:
    """A sync on a terminal, which waits for an answer."""

    def __init__(self, process: "subprocess.Popen[str]", keyboard: int) -> None:
        self._process = process
        self._keyboard = keyboard

    def answer(self, text: str) -> Finished:
        os.write(self._keyboard, f"{text}\n".encode())
        out, err = self._process.communicate(timeout=TIMEOUT_SECONDS)
        return Finished(self._process.returncode, out, Path("prompt").read_text() + (err or ""))


@contextmanager
def on_terminal() -> Iterator[Terminal]:
    """The sync has shown what would change, and asks."""
    keyboard, tty = pty.openpty()
    with Path("prompt").open("w") as prompt:
        process = subprocess.Popen(
            [*PROGRAM, "cron", "sync", "jobs.toml"],
            stdin=tty, stdout=subprocess.PIPE, stderr=prompt, text=True,
        )  # fmt: skip
    os.close(tty)
    try:
        eventually_sync(lambda: "go on?" in Path("prompt").read_text())
        yield Terminal(process, keyboard)
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


def test_on_a_terminal_it_asks() -> None:
    file_of("one")
    with on_terminal() as terminal:
        declined = terminal.answer("n")
    assert declined.code == 1
    assert jobs() == {}
    with on_terminal() as terminal:
        agreed = terminal.answer("y")
    assert agreed.code == 0
    assert agreed.out == "+ one  to be created\ncreate one: done\n"
    assert "1 to create: go on?" in agreed.err
    assert jobs().keys() == {"one"}


def test_what_broke_off_is_finished_by_the_next_one() -> None:
    file_of("a", "b")
    synced()
    file_of('new a; renamed_from = "a"', 'new b; renamed_from = "b"', "c")
    with on_terminal() as terminal:
        # While it asks, someone takes a name that it needs.
        cron("add", "new b", "--cron", "@daily", "--url", URL)
        broken = terminal.answer("y")
    assert broken.code == 1
    assert broken.out.splitlines()[-1] == "rename a to new a: done"
    assert "rename b to new b: " in broken.err
    assert "1 of 3 changes were made; run it again to make the rest" in broken.err
    assert jobs().keys() == {"new a", "new b", "b"}

    cron("rm", "new b", "--yes")
    assert synced() == {"new a": "unchanged", "new b": "renamed", "c": "created"}
    assert jobs().keys() == {"new a", "new b", "c"}
