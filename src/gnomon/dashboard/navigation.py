"""The pages that are offered on every page, in their order."""

import msgspec

from gnomon.access.principal import Role


class Entry(msgspec.Struct, frozen=True):
    """A page and who is offered it. Whether it may be seen is decided by its route, again."""

    path: str
    name: str
    role: Role


ENTRIES = (
    Entry("/", "Overview", Role.READ),
    Entry("/tasks", "Tasks", Role.READ),
    Entry("/dead-letters", "Dead letters", Role.READ),
    Entry("/cron", "Recurring", Role.READ),
    Entry("/limits", "Limits", Role.READ),
    Entry("/nodes", "Nodes", Role.OPERATOR),
)


def is_here(entry: Entry, path: str) -> bool:
    """Whether a path is of this page, or of one below it."""
    return path == entry.path or (entry.path != "/" and path.startswith(f"{entry.path}/"))
