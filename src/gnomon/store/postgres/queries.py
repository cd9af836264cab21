"""SQL lives in `.sql` files, one statement each, to be read and EXPLAINed as it runs."""

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """The statement in `sql/<name>.sql`."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text()
