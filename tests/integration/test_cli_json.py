"""With `--json` stdout has JSON or nothing, whatever the command; errors are JSON on stderr."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.commands import Finished, gnomon_here

from gnomon.cli.main import app

# They go on until they are stopped, and print what happens as log lines or for people.
WITHOUT_JSON = {
    "gnomon up", "gnomon api", "gnomon scheduler", "gnomon worker", "gnomon listen", "gnomon relay",
}  # fmt: skip
ARGUMENTS = {
    "ID": "0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0",
    "EXPR": "0 9 * * *",
    "FILE": "file.json",
    "[on|off]": "on",
    "version": "1",
    "TYPE|URL": "http://127.0.0.1:9/",
    "NAME=VALUE": "a=b",
}
OPTIONS = {"--name": "x", "--role": "read", "--from": "2026-01-01", "--to": "2026-01-02"}
MORE = {
    "gnomon cron add": ["--cron", "0 9 * * *", "--url", "http://127.0.0.1:9/"],
    "gnomon cron preview": ["report"],
    "gnomon keys create": ["--role", "read"],
    "gnomon limits set": ["--rate", "1"],
    "gnomon migrate down": ["--to", "1"],
}


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        yield from commands(child, f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app), "gnomon"))


def line_of(path: str) -> list[str]:
    """The command with everything that it requires."""
    given = path.split()[1:]
    for each in COMMANDS[path].params:
        if each.param_type_name == "argument":
            given.append(ARGUMENTS.get(each.metavar or each.name, "report"))
        elif each.required:
            given += [each.opts[0], OPTIONS.get(each.opts[0], "1")]
    names = {name for each in COMMANDS[path].params for name in each.opts}
    return [*given, *MORE.get(path, []), *(["--yes"] if "--yes" in names else []), "--json"]


def is_json(text: str) -> bool:
    """Whether every line is a document."""
    return all(isinstance(json.loads(line), dict) for line in text.splitlines())


def failed(finished: Finished) -> list[str]:
    """The messages of a command that printed nothing, and JSON on stderr."""
    assert (finished.code > 0, finished.out) == (True, ""), finished
    told = [json.loads(line) for line in finished.err.splitlines()]
    return [each["error"]["message"] for each in told if "error" in each]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u:sekrit@127.0.0.1:{unused_tcp_port}/d")
    (tmp_path / "file.json").write_text("{}")


def test_only_what_goes_on_for_ever_has_no_json() -> None:
    without = {
        path
        for path, command in COMMANDS.items()
        if "--json" not in {name for each in command.params for name in each.opts}
    }
    assert without <= WITHOUT_JSON


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - WITHOUT_JSON))
def test_errors_are_json_on_stderr(path: str) -> None:
    """There is neither an API nor a database; some commands need neither."""
    finished = gnomon_here(*line_of(path))
    assert is_json(finished.err), finished.err
    assert "sekrit" not in finished.err + finished.out
    assert not finished.out or json.loads(finished.out)
    assert finished.out or failed(finished)
    wrong = gnomon_here(*path.split()[1:], "--json", "--no-such-option")
    (message,) = failed(wrong)
    assert (wrong.code, message.startswith("No such option: --no-such-option")) == (2, True)


def test_nobody_is_asked() -> None:
    finished = gnomon_here("tasks", "delete", ARGUMENTS["ID"], "--json", stdin="y\n")
    (message,) = failed(finished)
    assert "--yes" in message


@pytest.mark.parametrize(
    ("variables", "arguments", "told"),
    [
        ({"GNOMON_NODE_SLOTS": "many"}, ["tasks", "list"], "GNOMON_NODE_SLOTS: node.slots must be"),
        ({"DATABASE_URL": "mysql://u:sekrit@h/d"}, ["migrate", "status"], "from DATABASE_URL)"),
        ({"DATABASE_URL": "postgresql://u:se/krit@h:1/d"}, ["migrate"], "from DATABASE_URL)"),
        ({}, ["migrate", "status"], "PostgreSQL is unavailable"),
    ],
)
def test_a_wrong_setting_is_named_by_its_variable_and_never_shown(
    variables: dict[str, str],
    arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    finished = gnomon_here(*arguments)
    assert finished.code == 1
    assert told in finished.err
    assert "krit" not in finished.err
    if "DATABASE_URL" in variables or not variables:
        assert "(it comes from DATABASE_URL)" in finished.err


class _Pages(BaseHTTPRequestHandler):
    """A first page of tasks, and then an error."""

    def log_message(self, *_: object) -> None:
        """Not on the stderr of the command."""

    def do_GET(self) -> None:
        task = {"task_id": "x", "status": "READY"}
        good = "cursor" not in self.path
        content = json.dumps({"tasks": [task], "next_cursor": "next"} if good else {}).encode()
        self.send_response(200 if good else 500)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def test_a_list_that_breaks_off_is_closed_with_the_error() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        finished = gnomon_here("tasks", "list", "--all", "--json", "--api", url)
        server.shutdown()
    assert finished.code == 1
    assert finished.json["tasks"] == [{"task_id": "x", "status": "READY"}]
    assert "Internal Server Error" in finished.json["error"]["message"]
    assert json.loads(finished.err)["error"]["status"] == 500
