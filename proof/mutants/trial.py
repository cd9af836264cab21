"""Runs tests against copies of the code, each in a process that is forked for it.

The parent has imported the libraries that tests use, and nothing of the package: so a trial costs
only the tests themselves, and imports the package anew from its copy.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from compileall import compile_dir
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from py_compile import PycInvalidationMode
from types import FrameType

import msgspec
from proof.mutants.plan import Mutant, Project

_GRACE_SECONDS = 10.0  # for tests to put away what they have started
_POLL_SECONDS = 0.05
_LONGEST_SECONDS = 900.0  # for tests of the code as it is
_NOT_COPIED = (
    ".git", ".venv", ".gnomon", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache",
    ".hypothesis", ".import_linter_cache", "build", "dist", "results",
)  # fmt: skip
_PRELOADED = (
    "aiohttp.test_utils", "asyncpg", "croniter", "cronsim", "granian", "hypothesis.stateful",
    "jsonschema_rs", "jwt", "litestar", "litestar.openapi", "msgspec", "prometheus_client",
    "psycopg", "pytest_asyncio", "requests", "rich", "standardwebhooks", "structlog", "typer",
)  # fmt: skip


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"  # a test failed, or none could even begin
    TIMED_OUT = "timed out"  # the tests did not end
    SURVIVED = "survived"


class Verdict(msgspec.Struct, frozen=True):
    """A trial and its end."""

    mutant: Mutant
    fate: Fate
    seconds: float
    by: str = ""  # the test that failed


class CannotJudge(Exception):
    """The tests do not pass, or do not run, on the code as it is."""


class Trial:
    """A pytest that runs on a copy."""

    def __init__(self, copy: Path, tests: Sequence[str], project: Project, limit: float) -> None:
        self.copy = copy
        self.began = time.monotonic()
        self._limit = self.began + limit
        self._told = False
        self._output = copy / "output.txt"
        self._temporary = copy / "temporary"
        shutil.rmtree(self._temporary, ignore_errors=True)
        self.pid = os.fork()
        if self.pid == 0:
            self._become_pytest(tests, project)

    def poll(self) -> int | None:
        """The code that pytest ended with; -1 where it had to be ended; None: it goes on."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._clean_up()  # before it is gone: until then nobody else can have its number
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return -1 if self._told or code < 0 else code
        now = time.monotonic()
        if now > self._limit:
            # At first kindly, so that servers are stopped; then not.
            os.killpg(self.pid, signal.SIGKILL if self._told else signal.SIGINT)
            self._told, self._limit = True, now + _GRACE_SECONDS
        return None

    def end(self) -> None:
        """End it now."""
        self._told = True
        self._clean_up()
        with suppress(ChildProcessError):  # it has just been waited for
            os.waitpid(self.pid, 0)

    def failed_test(self) -> str:
        text = self._output.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return lines[0].split(" ", 1)[1].split(" - ")[0] if lines else ""

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-4000:]

    def _clean_up(self) -> None:
        """Servers of tests that were killed are still there: end those of this trial."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for file in self._temporary.rglob("postmaster.pid"):
            with suppress(OSError, ValueError, IndexError):
                os.kill(int(file.read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _become_pytest(self, tests: Sequence[str], project: Project) -> None:
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with self._output.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            source = str(self.copy / "src")
            os.chdir(self.copy)
            os.environ["PYTHONPATH"] = source  # for processes that tests start
            # Mutants of one size in one second would be taken for each other's compiled file.
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            sys.dont_write_bytecode = True
            for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
                del sys.modules[name]  # those of the tree
            sys.path[:] = [source, str(self.copy), *_without(sys.path, project.root)]
            import pytest

            code = pytest.main(
                [
                    "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist",
                    "-p", "no:gnomon",  # it would import the package too early
                    "-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-seed=0",
                    f"--basetemp={self._temporary}", *tests,
                ]
            )  # fmt: skip
            sys.stdout.flush()
            os._exit(int(code))
        except BaseException:  # noqa: BLE001 - a child must never go on as its parent
            os._exit(3)


Subject = Mutant | tuple[str, ...]  # what is tried: a mutant, or tests of the code as it is
Begun = tuple[Trial, Subject]


class Judge:
    """Tries mutants, several at once, within a time."""

    def __init__(self, project: Project, jobs: int, seconds: float) -> None:
        self._project = project
        self._jobs = jobs
        self._deadline = time.monotonic() + seconds
        self.verdicts: list[Verdict] = []
        self.left_out: dict[
            str, str
        ] = {}  # tests that fail on the code as it is, and what they say
        self._healthy: dict[str, float] = {}  # seconds that the others take
        self._failed: set[str] = set()  # once, beside others or by chance
        self._unchanged: dict[Path, str] = {}  # the text of the file that is changed in each copy

    def judge(self, mutants: Iterable[Mutant], tell: Callable[[Verdict], None]) -> None:
        """Try those that there is time for; what was found so far is in `verdicts`, also when this
        is interrupted. Raises CannotJudge where nothing can be found."""
        verdicts = self.verdicts
        with tempfile.TemporaryDirectory(prefix="gnomon-mutants-") as folder, _ends_on_sigterm():
            copies = [self._copied(Path(folder) / str(n)) for n in range(self._jobs)]
            free, running = list(copies), dict[Trial, Subject]()
            waiting = []
            for mutant in mutants:
                if mutant.tests:
                    waiting.append(mutant)
                else:  # pytest would take no tests for all of them
                    verdicts.append(Verdict(mutant, Fate.SURVIVED, 0.0))
                    tell(verdicts[-1])
            try:
                while running or (waiting and time.monotonic() < self._deadline):
                    while free and waiting and time.monotonic() < self._deadline:
                        begun = self._begin(free[-1], waiting, running.values())
                        if begun is not None:
                            free.pop()
                            running[begun[0]] = begun[1]
                    for trial in list(running):
                        code = trial.poll()
                        if code is None:
                            continue
                        subject = running.pop(trial)
                        verdict = self._ended(trial, subject, code)
                        free.append(trial.copy)
                        if verdict is not None:
                            verdicts.append(verdict)
                            tell(verdict)
                    time.sleep(_POLL_SECONDS)
            finally:
                for trial in running:
                    trial.end()
        if self.left_out and not verdicts:
            said = "\n".join(self.left_out.values())
            raise CannotJudge(f"the tests of the code as it is fail:\n{said}")

    def _begin(self, copy: Path, waiting: list[Mutant], running: Iterable[Subject]) -> Begun | None:
        """Try the next mutant whose tests are known to pass, or see whether others do."""
        waiting[:] = [m for m in waiting if not self.left_out.keys() >= set(m.tests)]
        asked = {test for subject in running if isinstance(subject, tuple) for test in subject}
        for place, mutant in enumerate(waiting):
            unknown = self._unknown(mutant)
            if not unknown:
                del waiting[place]
                file = copy / "src" / self._project.package / mutant.path
                self._unchanged[copy] = file.read_text()
                file.write_text(mutant.change.applied(self._unchanged[copy]))
                tests = [test for test in mutant.tests if test in self._healthy]
                limit = 3 * sum(self._healthy[test] for test in tests) + 15
                return Trial(copy, tests, self._project, limit), mutant
            if not asked.intersection(unknown):
                return Trial(copy, unknown, self._project, _LONGEST_SECONDS), unknown
        if not waiting:
            return None
        # All the others wait for tests that are being run: no harm in running them twice.
        unknown = self._unknown(waiting[0])
        return Trial(copy, unknown, self._project, _LONGEST_SECONDS), unknown

    def _unknown(self, mutant: Mutant) -> tuple[str, ...]:
        """Tests of which it is to be seen whether they pass; one that failed is tried alone."""
        unknown = [t for t in mutant.tests if t not in self._healthy and t not in self.left_out]
        failed = [test for test in unknown if test in self._failed]
        return (failed[0],) if failed else tuple(unknown)

    def _ended(self, trial: Trial, subject: Subject, code: int) -> Verdict | None:
        seconds = time.monotonic() - trial.began
        if not isinstance(subject, Mutant):
            if code == 0:
                self._healthy.update(dict.fromkeys(subject, seconds / len(subject)))
            elif len(subject) == 1 and subject[0] in self._failed:
                self.left_out.update(dict.fromkeys(subject, trial.output()))
            self._failed.update(subject)
            return None
        file = trial.copy / "src" / self._project.package / subject.path
        file.write_text(self._unchanged[trial.copy])
        if code == -1:
            return Verdict(subject, Fate.TIMED_OUT, seconds)
        if code == 0:
            return Verdict(subject, Fate.SURVIVED, seconds)
        return Verdict(subject, Fate.KILLED, seconds, trial.failed_test())

    def _copied(self, to: Path) -> Path:
        """With its tests: they may be written to in the tree while this runs."""
        root = self._project.root
        shutil.copytree(root, to, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        if (root / ".venv").exists():
            (to / ".venv").symlink_to(root / ".venv")
        # By its hash: a file that was changed is never taken for the one that was compiled.
        compile_dir(to / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        return to


def preload() -> None:
    """Import what tests use, but for the package itself."""
    found = [each.module for each in entry_points(group="pytest11")]
    plugins = [name for name in found if not name.startswith("gnomon")]
    for name in ("pytest", *plugins, *_PRELOADED):
        with suppress(ImportError):
            import_module(name)


def _without(paths: Sequence[str], root: Path) -> list[str]:
    """The tree itself must not be found beside its copy."""
    return [path for path in paths if Path(path or ".").resolve() not in (root, root / "src")]


class _ends_on_sigterm:  # noqa: N801 - used as a statement
    """Turns SIGTERM into an exception, so that what runs is ended."""

    def __enter__(self) -> None:
        def leave(_signal: int, _frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        self._before = signal.signal(signal.SIGTERM, leave)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
