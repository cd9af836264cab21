"""Reads migrations from their files.

A migration that one transaction can carry is a pair of files:

    0021_colours.up.sql
    0021_colours.down.sql

One that must not block a running system is a folder of steps, whose names say how each is run:

    0022_shades/1_column.sql                one transaction
    0022_shades/2_index.concurrently.sql    CREATE or DROP INDEX CONCURRENTLY
    0022_shades/3_fill.batches.sql          one statement, again and again
    0022_shades/down.sql                    one transaction; undoes any number of the steps

A statement of batches gets the position that the batch before returned as `$1::jsonb` (null for the
first), and returns one row: `position` (null: this was the last batch) and `rows`, how many it has
changed. Position and batch are committed together.

A baseline replaces older migrations, which `0018_baseline.replaces.txt` lists.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from gnomon.store.postgres.migrate.errors import MigrationUnreadable

_FILE = re.compile(r"(\d{4})_(\w+)\.(up\.sql|down\.sql|replaces\.txt)")
_FOLDER = re.compile(r"(\d{4})_(\w+)")
_STEP = re.compile(r"(\d+)_(\w+)(?:\.(\w+))?\.sql")
_REPLACED = re.compile(r"(\d{4})_(\w+) ([0-9a-f]{64})")
_COMMENT = re.compile(r"--[^\n]*")
_INDEX = re.compile(  # names in lower case, so that they need no quotes
    r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?P<made>[a-z_0-9]+) "
    r"ON gnomon\.(?P<table>[a-z_0-9]+)\b[^;]*;?"
    r"|DROP INDEX CONCURRENTLY (?:IF EXISTS )?gnomon\.(?P<dropped>[a-z_0-9]+);?",
)


class StepKind(Enum):
    """How a step is run; the value is the word in the file's name."""

    TRANSACTION = ""
    CONCURRENTLY = "concurrently"
    BATCHES = "batches"


class MigrationStep(msgspec.Struct, frozen=True):
    """One file of a migration, run and recorded by itself."""

    number: int
    name: str
    kind: StepKind
    text: str

    @property
    def checksum(self) -> str:
        """Of the text, whatever its line ends."""
        return _checksum(self.text)


class Replaced(msgspec.Struct, frozen=True):
    """A migration that a baseline has replaced, as databases have recorded it."""

    version: int
    name: str
    checksum: str


class Migration(msgspec.Struct, frozen=True):
    """The way from one version of the schema to the next, and back."""

    version: int
    name: str
    steps: tuple[MigrationStep, ...]
    down: str
    replaces: tuple[Replaced, ...] = ()
    replaced_in: str = ""  # the last commit that has the migrations it replaces

    @property
    def checksum(self) -> str:
        """Of everything that `up` runs."""
        if len(self.steps) == 1:
            return self.steps[0].checksum
        named = (f"{s.number} {s.name} {s.kind.value} {s.checksum}" for s in self.steps)
        return _digest("\n".join(named))

    def __str__(self) -> str:
        return f"{self.version:04d} {self.name}"


class IndexStatement(msgspec.Struct, frozen=True):
    """What a step `.concurrently.sql` does: it makes an index of a table, or drops one."""

    index: str
    table: str | None  # None: it is dropped


def migrations(folder: Traversable | None = None) -> list[Migration]:
    """All migrations of this release (or of another folder), in order."""
    folder = folder or files("gnomon.store.postgres").joinpath("migrations")
    entries = [e for e in sorted(folder.iterdir(), key=lambda e: e.name) if e.name[0] not in "._"]
    groups = _grouped(entries, _of)
    return [_migration(version, name, group) for (version, name), group in groups.items()]


def index_statement(step: MigrationStep) -> IndexStatement:
    """The statement of a step `.concurrently.sql`."""
    found = _INDEX.fullmatch(_bare(step.text))
    if found is None:
        raise MigrationUnreadable(
            "must be one statement, `CREATE [UNIQUE] INDEX CONCURRENTLY name ON gnomon.table …` or "
            "`DROP INDEX CONCURRENTLY gnomon.name` (an index that is there already is dealt with: "
            "no IF NOT EXISTS)"
        )
    return IndexStatement(found["made"] or found["dropped"], found["table"])


def _of(entry: Traversable) -> tuple[int, str]:
    """The migration that a file or folder belongs to."""
    found = (_FOLDER if entry.is_dir() else _FILE).fullmatch(entry.name)
    if found is None:
        raise MigrationUnreadable(
            f"migrations/{entry.name} has no name of a migration: NNNN_name.up.sql with "
            "NNNN_name.down.sql, or a folder NNNN_name"
        )
    return int(found[1]), found[2]


def _grouped(
    entries: Iterable[Traversable], key: Callable[[Traversable], tuple[int, str]]
) -> dict[tuple[int, str], list[Traversable]]:
    groups: dict[tuple[int, str], list[Traversable]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    names: dict[int, str] = {}
    for version, name in groups:
        if names.setdefault(version, name) != name:
            raise MigrationUnreadable(
                f"two migrations have the number {version:04d}: {names[version]} and {name}"
            )
    return groups


def _migration(version: int, name: str, entries: list[Traversable]) -> Migration:
    where = f"{version:04d}_{name}"
    folders = [entry for entry in entries if entry.is_dir()]
    if folders:
        if len(entries) > 1:
            raise MigrationUnreadable(f"migration {where} is both a folder and a pair of files")
        return _of_folder(version, name, folders[0])
    texts = {entry.name.removeprefix(f"{where}."): _read(entry, "") for entry in entries}
    for kind in ("up.sql", "down.sql"):
        if kind not in texts:
            raise MigrationUnreadable(f"migration {where} has no file {where}.{kind}")
    step = MigrationStep(1, name, StepKind.TRANSACTION, texts["up.sql"])
    commit, replaced = _replaced(f"{where}.replaces.txt", texts.get("replaces.txt"))
    return Migration(version, name, (step,), texts["down.sql"], replaced, commit)


def _of_folder(version: int, name: str, folder: Traversable) -> Migration:
    where = folder.name
    steps: list[MigrationStep] = []
    down = None
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name == "down.sql":
            down = _read(entry, f"{where}/")
        else:
            steps.append(_step(entry, where))
    steps.sort(key=lambda step: step.number)
    if down is None:
        raise MigrationUnreadable(f"migration {where} has no file {where}/down.sql")
    if [step.number for step in steps] != list(range(1, len(steps) + 1)) or not steps:
        found = ", ".join(str(step.number) for step in steps) or "none"
        raise MigrationUnreadable(
            f"the steps of migration {where} must have the numbers 1, 2, 3, …; found: {found}"
        )
    return Migration(version, name, tuple(steps), down)


def _step(entry: Traversable, where: str) -> MigrationStep:
    found = _STEP.fullmatch(entry.name)
    kinds = {kind.value: kind for kind in StepKind}
    if found is None or (found[3] or "") not in kinds:
        raise MigrationUnreadable(
            f"{where}/{entry.name} has no name of a step: N_name.sql, N_name.concurrently.sql, "
            "N_name.batches.sql or down.sql"
        )
    kind = kinds[found[3] or ""]
    step = MigrationStep(int(found[1]), found[2], kind, _read(entry, f"{where}/"))
    try:
        _check(step)
    except MigrationUnreadable as error:
        raise MigrationUnreadable(f"{where}/{entry.name} {error}") from None
    return step


def _check(step: MigrationStep) -> None:
    if step.kind is StepKind.CONCURRENTLY:
        index_statement(step)
    if step.kind is StepKind.BATCHES:
        bare = _bare(step.text)
        missing = [word for word in ("$1", "position", "rows") if word not in bare]
        if missing or ";" in bare.removesuffix(";"):
            raise MigrationUnreadable(
                "must be one statement that takes the last position as `$1::jsonb` and returns "
                "`position` and `rows`" + (f"; not found: {', '.join(missing)}" if missing else "")
            )
    if step.kind is StepKind.TRANSACTION and " CONCURRENTLY " in _bare(step.text):
        raise MigrationUnreadable(
            "has a statement with CONCURRENTLY, which cannot run in a transaction: give it a file "
            "of its own, N_name.concurrently.sql"
        )


def _replaced(where: str, text: str | None) -> tuple[str, tuple[Replaced, ...]]:
    lines = [line for line in (text or "").splitlines() if line and not line.startswith("#")]
    if not lines:
        return "", ()
    found = [_REPLACED.fullmatch(line) for line in lines[1:]]
    rows = [Replaced(int(m[1]), m[2], m[3]) for m in found if m is not None]
    if not lines[0].startswith("commit ") or len(rows) < len(found):
        raise MigrationUnreadable(
            f"{where} must have a line `commit ID`, then lines `NNNN_name checksum`"
        )
    return lines[0].removeprefix("commit "), tuple(rows)


def _read(entry: Traversable, folder: str) -> str:
    name = f"{folder}{entry.name}"
    try:
        text = entry.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MigrationUnreadable(f"migrations/{name} cannot be read: {error}") from error
    if not _bare(text):
        raise MigrationUnreadable(f"migrations/{name} has no statement in it")
    return text


def _bare(text: str) -> str:
    """The text without comments, in one line."""
    return " ".join(_COMMENT.sub("", text).split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1024)  # before each step, those of all migrations are compared
def _checksum(text: str) -> str:
    return _digest(text.replace("\r\n", "\n").replace("\r", "\n"))
