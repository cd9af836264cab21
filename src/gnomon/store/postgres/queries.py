"""SQL lives in `.sql` files beside the modules that use them, one statement each.

Lists of columns that several statements share are written once, in `fragments/`, and put in where a
statement says `{name}`, or `{t.name}` for the columns of `t`. To see or EXPLAIN a statement as it
runs: `python -m gnomon.store.postgres.queries settle`.
"""

import re
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

_FRAGMENT = re.compile(r"^-- (\w+): .*\n(?:-- .*\n)*((?:(?!--).+\n)+)", re.MULTILINE)
_PLACE = re.compile(r"\{(?:([a-z]\w*)\.)?([a-z]\w*)\}")
_COLUMN = re.compile(r"\w+")


@cache
def query(name: str) -> str:
    """The statement in `<name>.sql`, whichever folder it is in: no two have the same name."""
    return _PLACE.sub(_filled, statements()[name].read_text())


@cache
def statements() -> dict[str, Path]:
    """Every statement's file, by its name."""
    others = {_root() / "migrations", _root() / "fragments"}
    found = (path for path in _root().rglob("*.sql") if others.isdisjoint(path.parents))
    return {path.stem: path for path in found}


@cache
def fragments() -> dict[str, str]:
    """Every shared list of columns, by its name."""
    texts = (path.read_text() for path in (_root() / "fragments").glob("*.sql"))
    return {name: columns.strip() for text in texts for name, columns in _FRAGMENT.findall(text)}


def _filled(place: re.Match[str]) -> str:
    alias, name = place.groups()
    columns = fragments()[name]
    return columns if alias is None else _COLUMN.sub(rf"{alias}.\g<0>", columns)


def _root() -> Path:
    return Path(str(files(__package__)))


if __name__ == "__main__":
    sys.stdout.write(query(sys.argv[1]))
