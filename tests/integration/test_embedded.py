"""The embedded PostgreSQL, with real servers, real kills and real users."""

import asyncio
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gnomon.store.embedded import EmbeddedError, EmbeddedServer, running_dsn
from gnomon.store.embedded import binaries as programs

QUICK = {"fsync": "off", "shared_buffers": "16MB", "min_wal_size": "32MB"}
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")

OWNER = """
import signal, sys
from pathlib import Path
from gnomon.store.embedded import EmbeddedServer
namespaces = "refused" not in sys.argv
server = EmbeddedServer(Path(sys.argv[1]), settings_overrides={settings!r}, namespaces=namespaces)
server.start()
print(server.pid, server.dsn, flush=True)
signal.pause()
"""


def server_in(folder: Path, **options: Any) -> EmbeddedServer:
    return EmbeddedServer(folder, settings_overrides=QUICK, **options)


def query(dsn: str, statement: str) -> Any:
    async def ask() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(ask())


def write_a_row(dsn: str) -> None:
    query(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")


def read_the_row(dsn: str) -> Any:
    return query(dsn, "SELECT answer FROM kept")


def modes_up_to_root(folder: Path) -> Mapping[Path, tuple[int, int, int]]:
    facts = {path: path.stat() for path in (folder, *folder.parents)}
    return {path: (fact.st_mode, fact.st_uid, fact.st_gid) for path, fact in facts.items()}


class Owner:
    """Another process that owns a data directory."""

    def __init__(self, folder: Path, *arguments: str, prefix: Sequence[str] = ()) -> None:
        python = [*prefix, sys.executable, "-c", OWNER.format(settings=QUICK)]
        self.process = subprocess.Popen(
            [*python, str(folder), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        pid, self.dsn = self.process.stdout.readline().split()
        self.server_pid = int(pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A folder that every user can reach. Those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_data_is_kept_across_a_stop(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        write_a_row(server.dsn)
    with server_in(data_dir) as server:
        assert read_the_row(server.dsn) == 42


def test_the_database_is_what_gnomon_expects(data_dir: Path) -> None:
    with EmbeddedServer(data_dir) as server:
        assert query(server.dsn, "SELECT current_database()") == "gnomon"
        assert query(server.dsn, "SHOW server_version").startswith("18.")
        assert query(server.dsn, "SHOW server_encoding") == "UTF8"
        assert query(server.dsn, "SELECT 'B' < 'a'")  # bytes decide the order: locale C
        assert query(server.dsn, "SHOW timezone") == "UTC"
        assert query(server.dsn, "SHOW data_checksums") == "on"
        assert query(server.dsn, "SHOW fsync") == "on"
        assert query(server.dsn, "SHOW synchronous_commit") == "on"
        assert query(server.dsn, "SHOW listen_addresses") == ""


def test_overrides_are_settings_of_the_server(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        assert query(server.dsn, "SHOW fsync") == "off"


def test_the_dsn_can_be_found_by_other_processes_while_it_runs(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        found = running_dsn(data_dir)
        assert found == server.dsn
        assert query(found, "SELECT 1") == 1
    assert running_dsn(data_dir) is None


def test_only_the_owner_can_reach_the_socket_and_the_secrets(data_dir: Path) -> None:
    with server_in(data_dir):
        for name in ("run", "postgres", "postgres.log", "postgres-password", "postgres.dsn"):
            assert (data_dir / name).stat().st_mode & 0o077 == 0, name


def test_a_second_owner_is_refused(data_dir: Path) -> None:
    owner = Owner(data_dir)
    try:
        with pytest.raises(EmbeddedError) as refusal:
            server_in(data_dir).start()
        assert str(data_dir) in str(refusal.value)
        assert f"process {owner.process.pid}:" in str(refusal.value)
        assert query(owner.dsn, "SELECT 1") == 1
    finally:
        owner.kill()
        server = server_in(data_dir)
        server.start()
        server.stop()


def test_a_directory_is_free_again_after_a_stop(data_dir: Path) -> None:
    first, second = server_in(data_dir), server_in(data_dir)
    first.start()
    with pytest.raises(EmbeddedError, match=f"process {os.getpid()}:"):
        second.start()
    first.stop()
    second.start()
    second.stop()


def test_the_server_of_a_killed_owner_is_taken_over(data_dir: Path) -> None:
    owner = Owner(data_dir)
    write_a_row(owner.dsn)
    owner.kill()
    assert query(owner.dsn, "SELECT 1") == 1  # the server lives on
    with server_in(data_dir) as server:
        assert server.pid != owner.server_pid
        assert server.dsn == owner.dsn
        assert read_the_row(server.dsn) == 42
    log = (data_dir / "postgres.log").read_text()
    assert "was not properly shut down" not in log


def test_a_start_after_owner_and_server_were_killed(data_dir: Path) -> None:
    owner = Owner(data_dir)
    write_a_row(owner.dsn)
    owner.process.kill()
    os.kill(owner.server_pid, signal.SIGKILL)
    owner.kill()
    with server_in(data_dir) as server:
        assert read_the_row(server.dsn) == 42


def test_a_server_that_was_killed_is_started_again_when_tended(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        write_a_row(server.dsn)
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        server.tend()
        assert server.pid != killed
        assert read_the_row(server.dsn) == 42


def test_a_busy_process_of_a_killed_server_does_not_hold_up_the_next(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        busy = "SELECT count(*) FROM generate_series(1, 2000000000) AS n WHERE n % 7 = 3"
        killed = server.pid

        async def scenario() -> None:
            connection = await asyncpg.connect(server.dsn)
            running = asyncio.create_task(connection.fetchval(busy))
            observer = await asyncpg.connect(server.dsn)
            active = "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'"
            while not await observer.fetchval(active, busy):
                pass
            os.kill(killed, signal.SIGKILL)
            os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
            server.tend()
            with pytest.raises((asyncpg.PostgresError, OSError)):
                await running
            observer.terminate()

        asyncio.run(scenario())
        assert query(server.dsn, "SELECT 1") == 1


def test_a_server_that_was_killed_can_be_stopped(data_dir: Path) -> None:
    server = server_in(data_dir)
    server.start()
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    server.start()
    server.stop()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_data_and_address(data_dir: Path, mode: str) -> None:
    with server_in(data_dir) as server:
        dsn, pid = server.dsn, server.pid
        write_a_row(dsn)
        server.restart(mode=mode)
        assert (server.dsn, server.pid != pid) == (dsn, True)
        assert read_the_row(dsn) == 42


def test_a_stale_pid_file_that_names_a_living_process(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        write_a_row(server.dsn)
        server.restart(mode="immediate")
        pid_file = (server.cluster / "postmaster.pid").read_text()
        socket_lock = data_dir / "run" / ".s.PGSQL.5432.lock"
        socket_text = socket_lock.read_text()
        ours = str(os.getpid())
        stale = re.sub(r"^\d+", ours, pid_file), re.sub(r"^\d+", ours, socket_text)
    (server.cluster / "postmaster.pid").write_text(stale[0])
    socket_lock.write_text(stale[1])
    with server_in(data_dir) as server:
        assert read_the_row(server.dsn) == 42


def test_an_empty_pid_file_of_a_crashed_machine(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        pass
    (server.cluster / "postmaster.pid").touch()
    with server_in(data_dir) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_a_first_start_that_was_cut_short_begins_anew(data_dir: Path) -> None:
    half = data_dir / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with server_in(data_dir) as server:
        assert query(server.dsn, "SELECT 1") == 1
    assert not half.exists()


def test_data_of_another_version_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 17"):
        server_in(data_dir).start()


def test_a_server_that_cannot_start_says_why_and_frees_the_directory(data_dir: Path) -> None:
    wrong = EmbeddedServer(data_dir, settings_overrides=QUICK | {"max_connections": "many"})
    with pytest.raises(EmbeddedError, match="max_connections"):
        wrong.start()
    with server_in(data_dir) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_private_parents_stay_private(tmp_path: Path) -> None:
    private = tmp_path / "private" / "deeper"
    private.mkdir(parents=True)
    private.parent.chmod(0o700)
    private.chmod(0o700)
    before = modes_up_to_root(private)
    with server_in(private / "data") as server:
        assert query(server.dsn, "SELECT 1") == 1
    assert modes_up_to_root(private) == before
    assert stat.S_IMODE((private / "data").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["d" * 120, "a,b", 'a"b', "a b%20ü&host=x"])
def test_awkward_folders(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "data"
    with server_in(folder) as server:
        dsn = server.dsn
        write_a_row(dsn)
        remembered = folder / "socket-folder"
        short = Path(remembered.read_text()) if remembered.exists() else None
        assert short is None or stat.S_IMODE(short.stat().st_mode) == 0o700
        server.restart(mode="immediate")
        assert server.dsn == dsn
        assert read_the_row(dsn) == 42
    assert short is None or not short.exists()


def test_the_short_folder_of_a_killed_owner_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    owner = Owner(folder)
    owner.kill()
    with server_in(folder) as server:
        assert server.dsn == owner.dsn


def test_without_sockets_it_listens_on_loopback_with_a_password(data_dir: Path) -> None:
    with server_in(data_dir, sockets=False) as server:
        assert query(server.dsn, "SELECT 1") == 1
        assert query(server.dsn, "SHOW listen_addresses") == "127.0.0.1"
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(re.sub(r":[^:@]+@", ":wrong@", server.dsn), "SELECT 1")


def test_the_log_is_bounded(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        with server.log.open("ab") as log:
            log.truncate(9 * 1024 * 1024)
        server.tend()
        query(server.dsn, "DO $$ BEGIN RAISE WARNING 'still heard'; END $$")
        assert server.log.stat().st_size < 1024
        assert "still heard" in server.log.read_text()


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        assert os.getsid(server.pid) == server.pid


@is_root
def test_root_runs_it_in_a_namespace_and_keeps_the_files(data_dir: Path) -> None:
    with server_in(data_dir) as server:
        ours = Path("/proc/self/ns/user").readlink()
        assert Path(f"/proc/{server.pid}/ns/user").readlink() != ours
        assert server.cluster.stat().st_uid == 0
        assert (server.cluster / "PG_VERSION").stat().st_uid == 0


@is_root
def test_where_namespaces_are_refused_it_runs_as_an_ordinary_user(public_dir: Path) -> None:
    before = modes_up_to_root(public_dir)
    data_dir = public_dir / "data"
    with server_in(data_dir, namespaces=False) as server:
        write_a_row(server.dsn)
        assert Path(f"/proc/{server.pid}").stat().st_uid == server.cluster.stat().st_uid != 0
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o710
    assert modes_up_to_root(public_dir) == before
    # The files are that user's now, and stay so where namespaces are allowed.
    with server_in(data_dir) as server:
        assert read_the_row(server.dsn) == 42
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


@is_root
def test_root_of_a_container_takes_over_from_an_ordinary_user(public_dir: Path) -> None:
    """Without CAP_SYS_PTRACE root cannot look into the processes of other users."""
    weaker = ("setpriv", "--bounding-set=-sys_ptrace")
    first = Owner(public_dir / "data", "refused", prefix=weaker)
    write_a_row(first.dsn)
    first.kill()
    second = Owner(public_dir / "data", "refused", prefix=weaker)
    assert read_the_row(second.dsn) == 42
    second.kill()
    with server_in(public_dir / "data") as server:
        assert read_the_row(server.dsn) == 42
    log = (public_dir / "data" / "postgres.log").read_text()
    assert "was not properly shut down" not in log


@is_root
def test_files_made_in_a_namespace_are_handed_over(public_dir: Path) -> None:
    (public_dir / "data").mkdir(mode=0o755)
    with server_in(public_dir / "data") as server:
        write_a_row(server.dsn)
    with server_in(public_dir / "data", namespaces=False) as server:
        assert read_the_row(server.dsn) == 42


@is_root
def test_a_folder_that_no_ordinary_user_reaches_is_named(public_dir: Path) -> None:
    closed = public_dir / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=f"cannot enter {closed}\\."):
        server_in(closed / "deeper" / "data", namespaces=False).start()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@is_root
def test_programs_out_of_reach_are_copied(
    public_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / programs.PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    wheel = programs.installed().root
    shutil.copytree(wheel, package / programs.INSTALL)
    shutil.copytree(wheel.parents[1] / programs.LIBRARIES, tmp_path / programs.LIBRARIES)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(str(tmp_path))
    with server_in(public_dir / "data", namespaces=False) as server:
        program = Path(f"/proc/{server.pid}/exe").readlink()
        assert program.is_relative_to(public_dir / "data")
        assert query(server.dsn, "SELECT 1") == 1


@is_root
def test_an_ordinary_user_runs_it_directly(data_dir: Path) -> None:
    script = OWNER.format(settings=QUICK).replace(
        "signal.pause()", "assert server._identity.prefix == (); server.stop()"
    )
    as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    done = subprocess.run(
        [*as_user, sys.executable, "-c", script, str(data_dir)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
