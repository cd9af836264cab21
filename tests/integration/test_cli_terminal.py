"""The task commands as people use them: in a terminal of 80 columns, with the first characters of
ids, an editor, and Ctrl-C."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from tests.commands import Finished, api_running, gnomon_here
from tests.terminal import in_terminal

URL = "http://127.0.0.1:9/"
LONG = "a.task.type.with.a.very.long.name.that.goes.on.for.ever"


class Terminal:
    """The command line with an API behind it, and no node: nothing runs, so nothing moves."""

    def __init__(self, dsn: str, url: str, folder: Path) -> None:
        self._dsn = dsn
        self._env = {"GNOMON_URL": url}
        self._folder = folder

    def shown(self, *arguments: str, interrupt_after: str | None = None) -> Finished:
        """In a terminal."""
        return in_terminal(
            *arguments, cwd=self._folder, env=self._env, interrupt_after=interrupt_after
        )

    def submit(self, *arguments: str) -> str:
        done = gnomon_here("submit", URL, *arguments)
        assert done.code == 0, done.err
        return done.out.strip()

    def sql(self, text: str, *values: object) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self._dsn)
            await connection.execute(text, *values)
            await connection.close()

        asyncio.run(run())


@pytest.fixture
def terminal(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{unused_tcp_port}"
    monkeypatch.setenv("GNOMON_URL", url)
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield Terminal(database_dsn, url, tmp_path)


def test_lists_fit_80_columns_and_their_ids_work(terminal: Terminal) -> None:
    tasks = [terminal.submit("--type", LONG, "--tag", "a", "--tag", "b") for _ in range(3)]
    terminal.sql(
        "UPDATE gnomon.task SET state = 4, attempt = 4, started_at = gnomon.now(), "
        "last_error = $1 WHERE id = $2",
        "ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:default", UUID(tasks[0]),
    )  # fmt: skip
    terminal.sql(
        "UPDATE gnomon.task SET attempt = 1, due_at = gnomon.now() + interval '1 hour' "
        "WHERE id = $1", UUID(tasks[1]),
    )  # fmt: skip
    for command in (["tasks", "list"], ["dead", "list"], ["tasks", "show", tasks[0]]):
        seen = terminal.shown(*command)
        assert seen.code == 0
        assert max(map(len, seen.out.splitlines())) <= 80, seen.out
    listed = terminal.shown("tasks", "list").out
    assert "FAILED, retry in 59m" in listed
    dead = terminal.shown("dead", "list").out
    assert "ClientConnectorError: Cannot" in dead
    assert "connect to host 127.0.0.1:9" in dead
    short = dead.splitlines()[1].split()[0]
    assert tasks[0].startswith(short)
    assert short != tasks[0]
    assert gnomon_here("dead", "show", short, "--json").json["task_id"] == tasks[0]
    # What is not read in a terminal keeps its ids.
    assert gnomon_here("tasks", "list").out.split().count(tasks[2]) == 1


def test_the_beginning_of_an_id_is_enough(terminal: Terminal) -> None:
    first = terminal.submit("--delay", "1h")
    second = str(UUID(int=UUID(first).int ^ 1))
    done = gnomon_here("tasks", "pause", first[:30].upper(), "--json")
    assert [task["status"] for task in done.json["tasks"]] == ["PAUSED"]
    terminal.sql(
        "INSERT INTO gnomon.task (tenant_id, id, state, execute_at, due_at, task_type, target) "
        "SELECT tenant_id, $1, state, execute_at, due_at, 'other', target FROM gnomon.task",
        UUID(second),
    )
    unclear = gnomon_here("tasks", "show", first[:18])
    assert unclear.code == 1
    assert all(each in unclear.err for each in (first, second, "PAUSED", "other"))
    assert "no task has an id that begins with 01990000" in gnomon_here(
        "tasks", "cancel", "01990000"
    ).err  # fmt: skip
    wrong = gnomon_here("tasks", "explain", "report")
    assert (wrong.code, "`gnomon tasks list` shows them" in wrong.err) == (2, True)
    assert gnomon_here("tasks", "retry", "report", first).code == 1


def test_a_task_is_edited_until_it_is_accepted(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor first writes what is refused, and then finds that text and the reason."""
    task_id = terminal.submit("--delay", "1h", "--payload", '{"n": 1}')
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "text = file.read_text()\n"
        "if 'REFUSED' in text:\n"
        "    assert '\"n\": 2' in text and 'timeout_seconds' in text.split('{')[0], text\n"
        "    text = text.replace('-5', '7')\n"
        "else:\n"
        "    text = text.replace('\"n\": 1', '\"n\": 2').replace('30.0', '-5')\n"
        "file.write_text(text)\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    done = gnomon_here("tasks", "edit", task_id[:18], "--yes", stdin="y\n")
    assert done.code == 0, done
    assert 'payload: {"n":1} -> {"n":2}' in done.err
    assert "timeout_seconds" in done.err
    shown = gnomon_here("tasks", "show", task_id, "--json").json
    assert (shown["payload"], shown["timeout_seconds"]) == ({"n": 2}, 7.0)

    monkeypatch.setenv("EDITOR", "true")
    assert "unchanged" in gnomon_here("tasks", "edit", task_id).out
    editor.write_text("import sys; open(sys.argv[1], 'w').write('{')")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    kept = gnomon_here("tasks", "edit", task_id)
    assert (kept.code, "not JSON" in kept.err) == (1, True)
    assert Path(kept.err.split("the text is kept in ")[1].strip()).read_text().endswith("{")
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert "cannot be started" in gnomon_here("tasks", "edit", task_id).err


def test_a_job_is_edited(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gnomon_here("cron", "add", "report", "--cron", "0 9 * * *", "--url", URL)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('0 9 * * *', '30 9 * * *'))\n"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor}")
    declined = gnomon_here("cron", "edit", "report", stdin="n\n")
    assert (declined.code, "text is kept" in declined.err) == (1, True)
    done = gnomon_here("cron", "edit", "report", "--yes", "--json")
    assert done.json["cron_expression"] == "30 9 * * *"
    assert terminal.shown("cron", "list").code == 0


def test_ctrl_c_says_that_the_task_goes_on(terminal: Terminal) -> None:
    waited = terminal.shown(
        "submit", URL, "--delay", "1h", "--wait", interrupt_after="waits for its time"
    )
    assert waited.code == 130
    found = re.search(r"the task goes on: gnomon tasks show (\S+) --watch", waited.out)
    assert found is not None, waited.out
    watched = terminal.shown(
        "tasks", "show", found[1][:18], "--watch", interrupt_after="waits for its time"
    )
    assert (watched.code, found[0] in watched.out) == (130, True)
    assert gnomon_here("tasks", "show", found[1], "--json").json["status"] == "SCHEDULED"


def test_ctrl_c_says_that_the_operation_goes_on(terminal: Terminal) -> None:
    terminal.submit("--tag", "x", "--delay", "1h")
    waited = terminal.shown(
        "tasks", "cancel", "--all", "--tag", "x", "--yes", interrupt_after="0 of 1"
    )
    assert waited.code == 130
    assert f"cancel [{'.' * 30}] 0 of 1" in waited.out
    found = re.search(r"the operation goes on: gnomon bulk show (\S+) --watch", waited.out)
    assert found is not None, waited.out
    assert f"to stop it as well: gnomon bulk stop {found[1]}" in waited.out
    assert gnomon_here("bulk", "show", found[1], "--json").json["status"] == "RUNNING"
    watched = terminal.shown("bulk", "show", found[1], "--watch", interrupt_after="0 of 1")
    assert (watched.code, found[0] in watched.out) == (130, True)


def test_tail_tells_what_starts_and_ends(terminal: Terminal) -> None:
    """The tasks are changed while it looks: as a node would, in several steps."""
    task_id = terminal.submit("--type", "mail")
    terminal.submit("--type", "other")

    async def told() -> list[str]:
        tail = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gnomon", "tasks", "tail", "--type", "mail", "--lines", "2",
            "--json", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert b"waiting for tasks" in await tail.stderr.readline()
        found = []
        for step in ("state = 1, attempt = 1", "state = 4, last_error = 'broken'"):
            await asyncio.to_thread(terminal.sql, f"UPDATE gnomon.task SET {step}")
            found.append((await tail.stdout.readline()).decode())
        assert await tail.wait() == 0
        return found

    lines = [json.loads(line) for line in asyncio.run(told())]
    assert {each["task_id"] for each in lines} == {task_id}
    assert [each["status"] for each in lines] == ["RUNNING", "DEAD_LETTERED"]


def test_an_error_breaks_no_word_in_80_columns(tmp_path: Path, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    done = in_terminal("tasks", "list", cwd=tmp_path, env={"GNOMON_URL": url})
    assert done.code == 1
    lines = done.out.splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 80 for line in lines)
    whole = " ".join(line.strip() for line in lines)
    assert f"does not answer at {url} (connection refused); is `gnomon up`" in whole
