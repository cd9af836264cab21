"""Which mutants are tried, and which tests each of them must survive."""

import ast
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
from proof.mutants.changes import Change, changes_of

# Pure code, measured by its unit tests alone.
PURE = ("model", "access", "breakers", "cron", "fairness", "limits", "payload_schemas", "wheel")

# Beside the tests that import a module: those that reach it through others, the quickest first.
REACHING: list[tuple[str, Sequence[str]]] = [
    ("cron/", ("tests/unit/cron/test_*.py",)),
    ("chores/", ("tests/unit/chores/test_*.py",)),
    ("breakers/breaker.py", ("tests/unit/breakers/test_*.py",)),
    ("fairness/", ("tests/unit/fairness/test_*.py",
                   "tests/unit/node/test_agenda.py")),
    ("wheel/", ("tests/unit/wheel/test_wheel.py",)),
    ("api/", ("tests/integration/test_api_tasks.py", "tests/integration/test_api_errors.py",
              "tests/integration/test_api_idempotency.py", "tests/integration/test_api_cron.py",
              "tests/integration/test_api_dead_letters.py")),
    ("cli/admin/keys.py", ("tests/integration/test_cli_identity.py",)),
    ("cli/admin/nodes.py", ("tests/integration/test_cli_nodes.py",)),
    ("cli/", ("tests/unit/cli/test_*.py", "tests/integration/test_cli_tasks.py",
              "tests/integration/test_cli_cron.py")),
    ("client/", ("tests/integration/test_client_exchange.py",)),
    ("limits/needs.py", ("tests/unit/limits/test_permits.py", "tests/integration/test_limits.py")),
    ("node/run/", ("tests/unit/node/test_hung_handlers.py", "tests/integration/test_node.py",
                 "tests/integration/test_hung_handlers.py")),
    ("node/", ("tests/integration/test_node.py", "tests/integration/test_limits.py",
                    "tests/integration/test_breakers.py", "tests/integration/test_planning.py")),
    ("pipe/", ("tests/conformance/test_pipes.py", "tests/integration/test_node.py")),
    ("store/embedded/", ("tests/integration/test_embedded.py",)),
    ("store/postgres/dispatch/dispatch_store.py", (
        "tests/integration/test_dispatch_store.py", "tests/integration/test_scanner.py",
        "tests/integration/test_overlap_store.py", "tests/integration/test_planning.py")),
    ("store/postgres/limits/limiters.py", ("tests/integration/test_api_limiters.py",)),
    ("store/", ("tests/integration/test_task_store.py", "tests/integration/test_dispatch_store.py",
                "tests/integration/test_planning.py", "tests/integration/test_overlap_store.py",
                "tests/integration/test_limit_store.py")),
    ("", ("tests/integration/test_node.py",)),
]  # fmt: skip
# Not measured: they only put things together, and are what users see of the tests.
_ROOMS = ("tests/unit/", "tests/conformance/", "tests/integration/")
_SLOW = _ROOMS.index("tests/integration/")
_MOST_SLOW = 4
LEFT_OUT = (
    "testing/", "store/postgres/migrations/", "store/postgres/fragments/", "__main__.py",
)  # fmt: skip


class Mutant(msgspec.Struct, frozen=True):
    """A change to one file, and the tests that should notice it."""

    number: int
    path: str  # of the package's file, from its folder
    change: Change
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else "gnomon"


class Project(msgspec.Struct, frozen=True):
    """Where the code and its tests are."""

    root: Path
    package: str = "gnomon"

    @property
    def source(self) -> Path:
        return self.root / "src" / self.package

    def files(self, only: Sequence[str] = ()) -> list[str]:
        """Of the package, in order; those below one of `only`, if any is given."""
        found = sorted(
            str(path.relative_to(self.source))
            for path in self.source.rglob("*")
            if path.suffix in (".py", ".sql")
        )
        return [
            path
            for path in found
            if not path.startswith(LEFT_OUT)
            and (not only or any(path.startswith(name.removesuffix("/")) for name in only))
        ]


def chosen(project: Project, only: Sequence[str], most: int, seed: int) -> list[Mutant]:
    """Of all mutants of these files so many, by chance; the same for the same seed and code."""
    pool = [
        (path, change)
        for path in project.files(only)
        for change in changes_of((project.source / path).read_text(), Path(path).suffix)
    ]
    picked = random.Random(seed).sample(pool, min(most, len(pool)))
    tests = Choice(project)
    return [
        Mutant(number, path, change, tests.of(path))
        for number, (path, change) in enumerate(picked, 1)
    ]


def count(project: Project, only: Sequence[str]) -> int:
    return sum(
        len(changes_of((project.source / path).read_text(), Path(path).suffix))
        for path in project.files(only)
    )


class Choice:
    """Finds the tests of a file: those that import its module, and those that reach it."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._importers: dict[str, set[str]] = {}
        self._imports: dict[str, int] = {}  # how many each has: the fewer, the more to the point
        for path in sorted((project.root / "tests").rglob("test_*.py")):
            name = str(path.relative_to(project.root))
            modules = _imported(path)
            self._imports[name] = len(modules)
            for module in modules:
                self._importers.setdefault(module, set()).add(name)
        self.of = cache(self._of)

    def _of(self, path: str) -> tuple[str, ...]:
        modules = self._using(path) if path.endswith(".sql") else [path]
        found: set[str] = set()
        for module in modules:
            dotted = ".".join((self._project.package, *Path(module).with_suffix("").parts))
            found |= self._to_the_point(dotted.removesuffix(".__init__"))
            found |= self._reaching(module)
        pure = path.startswith(tuple(f"{room}/" for room in PURE))
        fitting = [test for test in found if _fits(test, pure=pure)]
        if not fitting:
            through = (
                self._to_the_point(user) for module in modules for user in self._users(module)
            )
            fitting = [test for tests in through for test in tests if _fits(test, pure=pure)]
        return tuple(sorted(set(fitting), key=_dearness))

    def _users(self, module: str) -> list[str]:
        """Modules that import this one: who tests them tests it too."""
        dotted = ".".join((self._project.package, *Path(module).with_suffix("").parts))
        return [
            ".".join((self._project.package, *Path(user).with_suffix("").parts))
            for user in self._project.files()
            if user.endswith(".py") and dotted in _imported(self._project.source / user)
        ]

    def _to_the_point(self, module: str) -> set[str]:
        """Of those that import a module all quick ones, and the most special of the others."""
        found = self._importers.get(module, set())
        slow = {test for test in found if _dearness(test)[0] >= _SLOW}
        special = sorted(slow, key=lambda test: (self._imports[test], test))
        return (found - slow) | set(special[:_MOST_SLOW])

    def _using(self, path: str) -> list[str]:
        """The modules that send a statement."""
        asked = re.compile(rf"\"{re.escape(Path(path).stem)}\"")
        return [
            module
            for module in self._project.files()
            if module.endswith(".py") and asked.search((self._project.source / module).read_text())
        ]

    def _reaching(self, module: str) -> set[str]:
        for prefix, globs in REACHING:
            if module.startswith(prefix):
                return {
                    str(path.relative_to(self._project.root))
                    for pattern in globs
                    for path in self._project.root.glob(pattern)
                }
        return set()


@cache
def _imported(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return frozenset(found)


def _fits(test: str, *, pure: bool) -> bool:
    """System tests take too long, and tests of the tests say nothing."""
    if test.startswith("tests/system/"):
        return False
    return not pure or test.startswith("tests/unit/")


def _dearness(test: str) -> tuple[int, str]:
    """Cheap tests first: most mutants do not live to see the others."""
    place = next((n for n, room in enumerate(_ROOMS) if test.startswith(room)), len(_ROOMS))
    return place, test
