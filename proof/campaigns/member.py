"""A process of a campaign: started, killed, stopped, started again, in a time of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.waiting import eventually

_OBSERVE = ("-m", "proof.campaigns.observer")
_PATIENCE = 60.0
_ROOT = Path(__file__).parents[2]


class Death(msgspec.Struct, frozen=True):
    """An end of a process."""

    at: float  # seconds since the epoch, when it was noticed
    process: str
    code: int  # as subprocess tells it: -9 is kill -9
    last_words: str = ""  # of one that was not killed


class Member:
    """`python -m <module> ...` over all its lives. Start it from the main thread: the kernel takes
    the end of the starting thread for the end of the parent."""

    def __init__(
        self, name: str, folder: Path, command: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.extra: dict[str, str] = {}  # environment of its next life
        self.deaths: list[Death] = []
        self.paused = False
        self._folder = folder
        self._command = command
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._serving = False
        self._read = 0  # bytes of the log

    def start(self) -> None:
        assert not self.alive, f"{self.name} runs already"
        self._serving, self.paused = False, False
        with self.log.open("ab") as log:
            self._read = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, *self._command],
                env={**self._environ, **self.extra},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def started(self) -> bool:
        """Whether it has a life that was not looked into after its end."""
        return self._process is not None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def serving(self) -> bool:
        """Whether it has said in this life that it started, and lives."""
        if not self.alive:
            return False
        if not self._serving:
            with self.log.open("rb") as log:
                log.seek(self._read)
                text = log.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._serving = b' started"' in whole or b"worker started at" in whole
            self._read += len(whole)
        return self._serving

    def kill(self) -> None:
        """`kill -9`, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """Tell it to stop."""
        if self._process is not None and self.alive:
            self._process.terminate()

    def pause(self) -> None:
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGSTOP)
            self.paused = True

    def go_on(self) -> None:
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def noticed(self) -> Death | None:
        """Its end, told once."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        words = "" if code == -signal.SIGKILL else self.log.read_text(errors="replace")[-1500:]
        self.deaths.append(Death(time.time(), self.name, code, words))
        return self.deaths[-1]


def environment(folder: Path, **settings: object) -> dict[str, str]:
    """That of a Gnomon process: nothing of the user's own settings, and these."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("GNOMON_", "DATABASE_URL"))},
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")]),
        "GNOMON_DATABASE_DATA_DIR": str(folder / "gnomon"),
        "GNOMON_OUTPUT_LOG_FORMAT": "json",
        **{f"GNOMON_{key.upper()}": str(value) for key, value in settings.items()},
    }


def observer_of(folder: Path, epoch: float) -> Member:
    command = [*_OBSERVE, str(folder), str(os.getpid())]
    return Member("observer", folder, command, environment(folder, proof_epoch=epoch))


async def address_of(observer: Member) -> str:
    """Where the observer listens: the first thing that it says."""

    async def said() -> str | None:
        assert observer.alive, observer.log.read_text()
        first, whole, _ = observer.log.read_bytes().partition(b"\n")
        return msgspec.json.decode(first)["url"] if whole else None

    return await eventually(said, _PATIENCE)
