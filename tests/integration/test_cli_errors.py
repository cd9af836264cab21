"""Wrong input and missing servers: one clear line, the right exit code, never a traceback."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.commands import gnomon, gnomon_here

from gnomon import __version__
from gnomon.cli.main import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "GNOMON_URL", "GNOMON_SETTINGS", "GNOMON_DATABASE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command that ends in this process, and what it said on stderr."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    assert isinstance(exit_.value.code, int)
    return exit_.value.code, capsys.readouterr().err


class _OtherApi(BaseHTTPRequestHandler):
    """Answers every GET with JSON that is not Gnomon's."""

    def do_GET(self) -> None:
        content = json.dumps({"hello": "world"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def other_api() -> Iterator[str]:
    """The address of a server that is not Gnomon."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _OtherApi) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("command", ["tenants list", "tenants show a", "nodes", "usage"])
def test_an_api_of_another_program(
    command: str, other_api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = ended(capsys, *command.split(), "--api", other_api)
    assert code == 1
    assert "not Gnomon's API" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["submit"], "give the URL to call, or the handler's --type"),
        (["submit", "--type", "f", "--method", "PUT"], "are for URLs"),
        (["submit", "http://x/", "--payload", "{"], "--payload is not JSON"),
        (["submit", "http://x/", "--payload-file", "none.json"], "none.json cannot be read"),
        (["submit", "http://x/", "--delay", "5 parsecs"], "is not a duration like"),
        (["submit", "http://x/", "--at", "soon"], "is not a time like"),
        (["submit", "http://x/", "--at", "2030-01-01", "--delay", "1"], "either --delay or --at"),
        (["submit", "http://x/", "--priority", "urgent"], "'urgent' is not one of"),
        (["tasks", "list", "--status", "lost"], "'lost' is not one of"),
        (["tasks", "list", "--api", "127.0.0.1:8080"], "--api (or GNOMON_URL) must be like"),
        (["tasks", "pause"], "Missing argument 'ID'"),
        (["tasks", "cancel"], "give the ids of tasks, or --all"),
        (["tasks", "reschedule", "1"], "give the new time"),
        (["tasks", "reschedule", "1", "--at", "2040-01-01", "--delay", "1h"], "the new time"),
        (["tasks", "reschedule", "--delay", "1h", "--tag", "x"], "give the ids of tasks, or --all"),
        (["dead", "discard", "--error", "x"], "give the ids of dead letters, or --all"),
        (["dead", "retry"], "give the ids of dead letters, or --all"),
        (["dead", "retry", "1", "--all"], "give the ids of dead letters, or --all"),
        (["dead", "retry", "1", "--type", "x"], "choose among --all"),
        (["types", "set", "mail", "none.json"], "none.json cannot be read"),
        (["types", "set", "mail", __file__], "test_cli_errors.py is not JSON"),
        (["limits", "rm", "a/b"], "'a/b' must not contain a /"),
        (["migrate", "down"], "Missing option '--to'"),
        (["up", "--slots", "0"], "--slots"),
        (["fly"], "No such command 'fly'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = ended(capsys, *arguments)
    assert code == 2
    assert message in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks", "list"],
        ["tasks", "show", "1"],
        ["tasks", "cancel", "1", "2"],
        ["dead", "list"],
        ["submit", "http://127.0.0.1:9000/"],
    ],
    ids=" ".join,
)
def test_an_api_that_does_not_answer(
    arguments: list[str], unused_tcp_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    code, text = ended(capsys, *arguments, "--api", url)
    assert code == 1
    assert text == (
        f"gnomon: the API does not answer at {url} (connection refused); is `gnomon up` or "
        "`gnomon api` running? --api or GNOMON_URL says where it is\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks", "delete", "1"],
        ["cron", "rm", "report"],
        ["migrate", "down", "--to", "0"],
        ["migrate", "accept", "6"],
        ["authentication", "off"],
        ["tenants", "rm", "acme"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_what_must_be_confirmed_says_how_to_without_a_terminal(arguments: list[str]) -> None:
    done = gnomon_here(*arguments, stdin="")
    assert done.code == 1
    assert "?" in done.err
    assert "gnomon: nothing was changed: there is no terminal to ask on; add --yes" in done.err
    declined = gnomon_here(*arguments, stdin="n\n")
    assert (declined.code, "--yes" in declined.err) == (1, False)
    assert "Aborted" in declined.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("node.slots = 'many'", "node.slots"),
        ("slot = 5", "did you mean 'node.slots'?"),
        ("slots = 5", "slots is now node.slots"),
        ("node.slots = ", "is not valid TOML"),
        ("node.slots = 0", "node.slots must be at least 1"),
    ],
)
def test_a_wrong_settings_file(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.toml").write_text(content)
    code, text = ended(capsys, "--settings", "wrong.toml", "up")
    assert code == 1
    assert message in text
    assert text.count("\n") == 1


def test_a_settings_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ended(capsys, "--settings", "none.toml", "tasks", "list")
    assert (code, text) == (1, "gnomon: none.toml cannot be read: No such file or directory\n")


@pytest.mark.parametrize("command", ["api", "scheduler", "migrate"])
def test_commands_that_need_a_database_say_so(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = ended(capsys, command)
    assert code == 1
    assert "there is no database: DATABASE_URL is not set" in text


def test_a_database_that_cannot_be_reached(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://127.0.0.1:{unused_tcp_port}/gnomon")
    code, text = ended(capsys, "migrate", "status")
    assert code == 1
    assert "PostgreSQL is unavailable" in text


def test_an_address_that_is_not_loopback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GNOMON_API_HOST", "0.0.0.0")
    code, text = ended(capsys, "up", "--port", "0")
    assert code == 1
    assert "listens only on loopback" in text


@pytest.mark.parametrize("command", ["up", "listen"])
def test_a_port_in_use(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = ended(capsys, command, "--port", str(port))
    assert code == 1
    assert f"port {port}" in text
    assert "--port" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("command", ["up", "scheduler", "listen"])
def test_a_webhook_secret_that_is_none(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GNOMON_TARGETS_WEBHOOK_SECRET", "whsec_?")
    code, text = (
        ended(capsys, command, "--port", "0") if command != "scheduler" else ended(capsys, command)
    )
    assert code == 1
    assert "a webhook secret is whsec_ and base64" in text


def test_the_version(tmp_path: Path) -> None:
    done = gnomon("--version", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, f"gnomon {__version__}\n", "")


def test_a_command_starts_with_no_other_command_line(tmp_path: Path) -> None:
    """That of httpx brings click, rich and pygments: most of the time to start."""
    arguments = ("tasks", "list", "--api", "http://127.0.0.1:9")
    done = gnomon(*arguments, cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "httpx" in imported
    assert not imported & {"click", "rich.console", "pygments", "asyncpg", "litestar"}


def test_nothing_heavy_is_imported_for_help(tmp_path: Path) -> None:
    done = gnomon("--help", cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert "Begin with:" in done.out
    imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "gnomon.cli.main" in imported
    assert not imported & {"aiohttp", "asyncpg", "litestar", "granian", "rich", "structlog"}
