"""A backup of the embedded PostgreSQL is restored, and the tasks in it run."""

import json
import shutil
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Running, clean_environment, gnomon, running
from tests.conftest import FAST, PostgresServer, connected, migrated, on_database
from tests.system.image import PROJECT
from tests.system.test_up import Up, up
from tests.waiting import eventually_sync

from gnomon.store.embedded import EmbeddedServer
from gnomon.store.embedded.binaries import installed

pytestmark = pytest.mark.system


def script(name: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROJECT / "deploy" / name), *arguments],
        cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def ask(of: Up, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"{of.env['GNOMON_URL']}/api/v1/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def stop(of: Up) -> None:
    of.command.interrupt()
    assert of.command.wait() == 0


def goes_on(folder: Path, later: dict[str, Any], kept: list[Any], receiver: Running) -> None:
    """What was kept is there, and a task that was scheduled before the backup runs."""
    with up(folder) as restored:
        assert [ask(restored, "GET", path) for path, _ in kept] == [answer for _, answer in kept]
        path = f"tasks/{later['task_id']}"
        ask(restored, "PATCH", path, {"execute_at": datetime.now(UTC).isoformat()})
        assert receiver.event("call")["webhook_id"] == later["task_id"]

        def status() -> bool:
            return bool(ask(restored, "GET", path)["status"] == "COMPLETED")

        eventually_sync(status)
        stop(restored)


@pytest.mark.timeout(240)
def test_what_was_backed_up_goes_on_elsewhere(tmp_path: Path) -> None:
    old, dumped, copied = (tmp_path / name for name in ("old", "dumped", "copied"))
    for folder in (old, dumped, copied):
        folder.mkdir()
    with running("listen", "--port", "0", "--json", cwd=old) as receiver:
        url = receiver.event("listening")["url"]
        with up(old) as first:
            task = {"task_type": "hello", "callback_url": url}
            ended = ask(first, "POST", "tasks", task)["task_id"]
            assert receiver.event("call")["webhook_id"] == ended
            eventually_sync(lambda: ask(first, "GET", f"tasks/{ended}")["finished_at"])
            later = ask(first, "POST", "tasks", {**task, "delay_seconds": 3600})
            ask(
                first,
                "POST",
                "cron-jobs",
                {**task, "name": "nightly", "cron_expression": "0 2 * * *"},
            )
            paths = (f"tasks/{ended}", f"tasks/{later['task_id']}", "cron-jobs")
            kept = [(path, ask(first, "GET", path)) for path in paths]

            done = script("backup.py", "../gnomon.dump", cwd=old)
            assert done.returncode == 0, done.stderr
            assert (tmp_path / "gnomon.dump").stat().st_mode & 0o077 == 0
            assert "choose another name" in script("backup.py", "../gnomon.dump", cwd=old).stderr
            stop(first)
        shutil.copytree(old / ".gnomon", copied / ".gnomon")
        done = script("restore.py", "../gnomon.dump", cwd=dumped)
        assert done.returncode == 0, done.stderr
        for folder in (dumped, copied):
            goes_on(folder, later, kept, receiver)
    assert "move it away" in script("restore.py", "../gnomon.dump", cwd=dumped).stderr


@pytest.mark.timeout(240)
async def test_a_dump_moves_to_a_server_of_ones_own(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """As the page says: as a user that is no superuser, once the role gnomon_tenant is there."""
    with EmbeddedServer(tmp_path / ".gnomon", settings_overrides=FAST) as server:
        await migrated(server.dsn)
        done = script("backup.py", "gnomon.dump", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    admin = await connected(postgres.superuser_dsn)
    try:
        await admin.execute("CREATE ROLE mover LOGIN")
        await admin.execute("GRANT gnomon_tenant TO mover WITH INHERIT FALSE, SET TRUE")
        await admin.execute("CREATE DATABASE moved OWNER mover")
        dsn = on_database(postgres.dsn, "moved").replace("user=gnomon", "user=mover")
        restore = str(installed().root / "bin" / "pg_restore")
        options = ["--no-owner", "--exit-on-error", "--single-transaction"]
        subprocess.run(
            [restore, *options, f"--dbname={dsn}", "gnomon.dump"], cwd=tmp_path, check=True
        )
        doctor = gnomon("doctor", "--json", cwd=tmp_path, env={"DATABASE_URL": dsn}).json
        found = {each["name"]: each for each in doctor["checks"]}
        assert found["tenants"]["ok"], found
        assert found["migrations"]["ok"], found
    finally:
        await admin.execute("DROP DATABASE IF EXISTS moved WITH (FORCE)")
        await admin.execute("DROP ROLE IF EXISTS mover")
        await admin.close()


def test_a_broken_dump_leaves_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "gnomon.dump").write_text("no dump")
    done = script("restore.py", "gnomon.dump", cwd=tmp_path)
    assert done.returncode == 1
    assert "nothing was restored" in done.stderr
    assert not (tmp_path / ".gnomon").exists()


def test_a_backup_needs_a_running_server(tmp_path: Path) -> None:
    assert "no server runs in .gnomon" in script("backup.py", "gnomon.dump", cwd=tmp_path).stderr
    assert list(tmp_path.iterdir()) == []
