"""Makes `previous_database.sql`: rows of a database that the code of a landed commit has filled.

    python -m tests.system.previous_database 23e3537

`test_upgrade.py` loads them into the schema of that commit's last migration, and upgrades it. Make
them again after a migration has landed, with the commit that landed it. Only this script needs the
history; the test has what it needs in the file.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import gnomon, running
from tests.waiting import eventually_sync

from gnomon.store.embedded import EmbeddedServer
from gnomon.store.embedded.binaries import installed

PROJECT = Path(__file__).parents[2]
FILE = Path(__file__).with_suffix(".sql")
SETTINGS = """
[node]
lease_seconds = 5.0
app = "tests.integration.handlers:app"
"""
FAR = "2099-01-01T00:00:00Z"
DOCUMENT = {"text": "x" * 5000}  # large enough to be stored apart

Ask = Callable[..., Any]


def main(commit: str) -> None:
    full = _git("rev-parse", commit).strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.run(
            ["git", "archive", full, "src", "tests"], cwd=PROJECT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        (folder / "gnomon.toml").write_text(SETTINGS)
        with EmbeddedServer(folder / "data") as server:
            env = {"DATABASE_URL": server.dsn, "PYTHONPATH": f"{folder / 'src'}:{folder}"}
            about = _fill(folder, env)
            dump = _dump(server.dsn).replace(name, "/previous")  # in tracebacks
    about |= {"commit": full, "day": _created(dump)}
    FILE.write_text(f"-- {json.dumps(about)}\n{dump}")


def _fill(folder: Path, env: dict[str, str]) -> dict[str, Any]:
    assert gnomon("migrate", cwd=folder, env=env).code == 0
    done = gnomon("migrate", "status", "--json", cwd=folder, env=env)
    with running("up", "--port", "0", cwd=folder, env=env) as everything:

        def announced() -> re.Match[str] | None:
            return re.search(r"API\s+(http://\S+/api/v1)", everything.errors)

        ask = asking(eventually_sync(announced, 60.0)[1])
        gnomon("tenants", "create", "acme", cwd=folder, env=env)
        _tasks(ask)
        _cron_jobs(ask)
        _workflow(ask)
        ask("PUT", "task-types/known", {"schema": {"type": "object"}})
        ask("PUT", "limiters/few", {"concurrency": 5, "task_type": "limited"})
        secret = ("secrets", "create", "--host", "signed.example", "--scheme", "v1a")
        assert gnomon(*secret, cwd=folder, env=env).code == 0
        key = gnomon("keys", "create", "--name", "old", "--role", "admin", cwd=folder, env=env)
        assert key.code == 0, key.err
        everything.process.kill()  # what runs stays RUNNING
    version = max(int(each["version"]) for each in done.json["migrations"])
    return {"migration": version, "key": key.out.strip()}


def _tasks(ask: Ask) -> None:
    """Tasks in every state, of names that say which."""

    def submit(name: str, function: str = "echo", **fields: Any) -> str:
        body = {
            "task_type": function,
            "name": name,
            "target": {"type": "python", "function": function},
            "payload": {"who": name},
            "retry_policy": {"max_retries": 0},
        }
        task_id: str = ask("POST", "tasks", body | fields)["task_id"]
        return task_id

    def reaches(task_id: str, status: str) -> None:
        eventually_sync(lambda: ask("GET", f"tasks/{task_id}")["status"] == status)

    submit("scheduled", execute_at=FAR)
    submit("large", execute_at=FAR, payload={"who": "large", **DOCUMENT})
    submit("tagged", execute_at=FAR, tags=["a", "b"], idempotency_key="once", priority="HIGH")
    ask("POST", f"tasks/{submit('paused', execute_at=FAR)}/pause")
    ask("POST", f"tasks/{submit('cancelled', execute_at=FAR)}/cancel")
    reaches(submit("completed", payload={"who": "completed", "returns": {"n": 1}}), "COMPLETED")
    reaches(submit("dead", "reject"), "DEAD_LETTERED")
    resolved = submit("resolved", "reject")
    reaches(resolved, "DEAD_LETTERED")
    ask("POST", f"dead-letters/{resolved}/archive")
    reaches(submit("running", "wait_at_the_gate", timeout_seconds=3600), "RUNNING")


def _cron_jobs(ask: Ask) -> None:
    job = {
        "task_type": "echo",
        "target": {"type": "python", "function": "echo"},
        "payload_template": {"who": "cron"},
    }
    far = {"cron_expression": "0 0 1 1 *", "start_date": FAR}
    ask("POST", "cron-jobs", {**job, **far, "name": "yearly"})
    ask("POST", "cron-jobs", {**job, "interval_seconds": 3600, "name": "paused", "start_date": FAR})
    ask("POST", "cron-jobs/paused/pause", {"reason": "holidays"})
    gated = {"type": "python", "function": "wait_at_the_gate"}
    ask(
        "POST",
        "cron-jobs",
        {**job, **far, "name": "queued", "target": gated, "overlap_policy": "queue"},
    )
    for _ in range(2):  # the second waits for the first
        ask("POST", "cron-jobs/queued/trigger")


def _workflow(ask: Ask) -> None:
    """A run in the middle of its way: one node has ended, one waits, and one is blocked."""
    echo = {"task_type": "echo", "target": {"type": "python", "function": "echo"}}
    nodes = {
        "first": {**echo, "payload": {"who": "first", "returns": 7}},
        "asked": {"after": ["first"], "wait_for": {"signal": "go"}},
        "last": {
            **echo,
            "after": ["asked", "first"],
            "payload": {"who": "last", "returns": "{{nodes.first.result}}"},
        },
    }
    run = ask("POST", "workflow-runs", {"definition": {"name": "halfway", "nodes": nodes}})

    def waits() -> bool:
        shown = ask("GET", f"workflow-runs/{run['run_id']}")["nodes"]
        return any(node["node"] == "asked" and node["waits_for_signal"] == "go" for node in shown)

    eventually_sync(waits)


def asking(url: str, key: str | None = None) -> Ask:
    """Calls of an API; each returns the answer."""
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"

    def ask(method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{url}/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    return ask


def _dump(dsn: str) -> str:
    """Rows alone: the schema is that of the commit's last migration."""
    options = (
        "--data-only", "--inserts", "--schema=gnomon", "--load-via-partition-root", "--no-comments",
        "--exclude-table=gnomon.migration",
    )  # fmt: skip
    program = str(installed().root / "bin" / "pg_dump")
    text = subprocess.run(
        [program, *options, dsn], capture_output=True, text=True, check=True
    ).stdout
    # Without comments, and without what only psql or a certain version of the server understands.
    lines = (line for line in text.splitlines() if line)
    return "\n".join(line for line in lines if not line.startswith(("--", "\\", "SET "))) + "\n"


def _created(dump: str) -> str:
    found = re.search(r"INSERT INTO gnomon\.tenant VALUES .*?'(\d{4}-\d\d-\d\d) ", dump)
    assert found is not None
    return found[1]


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main(sys.argv[1])
