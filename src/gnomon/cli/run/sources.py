"""Watches the source files of an app, for `--reload`.

The app is imported by a process of its own, which says which files it is made of. So nothing of it
is kept here, and one that cannot be imported is shown and changes nothing: the workers that run
stay until a new one can.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from gnomon.clock import SystemClock
from gnomon.node.run.parent import die_with_parent

IMPORT_SECONDS = 30.0
_LOOK_SECONDS = 0.1  # between looks whether the import is still wanted

# Prints the files of the modules that are the user's own, also where the import fails. It does not
# wait for threads that the import has started.
_PROBE = """
import json, os, sys, sysconfig
from gnomon.sdk.errors import AppNotLoaded
from gnomon.sdk.declaring.loading import load_app
code = 0
try:
    load_app(sys.argv[1])
except AppNotLoaded as error:
    print(error, file=sys.stderr)
    code = 1
apart = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
print(json.dumps(sorted(f for f in files if f and not f.startswith(apart))))
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""


class Sources:
    """The files of an app as they were when it was last looked at."""

    def __init__(
        self,
        path: str,
        environ: Mapping[str, str],
        folder: Path,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._path = path
        self._stopped = stopped  # whether nobody wants to know any more
        self._environ = environ
        self._folder = folder
        module = path.partition(":")[0].replace(".", "/")
        # Where even the first import fails, these are all that is known.
        self._first = (f"{folder / module}.py", str(folder / module / "__init__.py"))
        self._files: frozenset[str] = frozenset(self._first)
        self._seen: dict[str, tuple[int, int]] = {}

    def look(self) -> bool:
        """Find the files; gives whether the app can be imported."""
        imported = self._imports()
        self._seen = _stamps(self._files)
        return imported

    def changed(self) -> bool:
        """Whether the files have changed, and the app can be imported as they are now."""
        now = _stamps(self._files)
        if now == self._seen:
            return False
        imported = self._imports()
        self._seen = now | _stamps(self._files - now.keys())
        if not imported and not self._stopped():
            _say("the app cannot be imported, so its last good version goes on")
        return imported

    def _imports(self) -> bool:
        printed, code = self._probe()
        if code is None:
            return False
        lines = printed.decode(errors="replace").splitlines()
        try:
            found = frozenset(json.loads(lines[-1])) if lines else frozenset()
        except ValueError:
            found = frozenset()
        # What an app that cannot be imported was made of may be what mends it.
        self._files = found | frozenset(self._first) | (self._files if code else set())
        return code == 0

    def _probe(self) -> tuple[bytes, int | None]:
        """What an import of the app printed, and how it ended; None: it was given up."""
        clock = SystemClock()
        deadline = clock.monotonic() + IMPORT_SECONDS
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROBE, self._path],
            env=dict(self._environ),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C in a terminal is for the supervisor
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - no threads here
        )
        try:
            while not self._stopped():
                try:
                    printed, _ = process.communicate(timeout=_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if clock.monotonic() < deadline:
                        continue
                    _say(f"the import of {self._path} has not ended after {IMPORT_SECONDS:g} s")
                    break
                return printed, process.returncode
            return b"", None
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it, with all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _stamps(files: Iterable[str]) -> dict[str, tuple[int, int]]:
    stamps = {}
    for file in files:
        try:
            stat = Path(file).stat()
        except OSError:
            stamps[file] = (0, 0)
        else:
            stamps[file] = (stat.st_mtime_ns, stat.st_size)
    return stamps


def _say(text: str) -> None:
    print(f"gnomon: {text}", file=sys.stderr, flush=True)
