"""SQL lives in `.sql` files beside the modules that use them, one statement each, to be read and
EXPLAINed as it runs."""

from functools import cache
from importlib.resources import files
from pathlib import Path


@cache
def query(name: str) -> str:
    """The statement in `<name>.sql`, whichever folder it is in: no two have the same name."""
    return statements()[name].read_text()


@cache
def statements() -> dict[str, Path]:
    """Every statement's file, by its name."""
    root = Path(str(files(__package__)))
    return {path.stem: path for path in root.rglob("*.sql") if path.parent.name != "migrations"}
