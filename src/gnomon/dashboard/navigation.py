"""The pages that are offered on every page, in their order."""

import msgspec

from gnomon.access.principal import Role


class PageLink(msgspec.Struct, frozen=True):
    """A page and who is offered it. Whether it may be seen is decided by its route, again."""

    path: str
    name: str
    role: Role


ENTRIES = (
    PageLink("/", "Overview", Role.READ),
    PageLink("/tasks", "Tasks", Role.READ),
    PageLink("/dead-letters", "Dead letters", Role.READ),
    PageLink("/bulk-operations", "Bulk", Role.READ),
    PageLink("/cron", "Recurring", Role.READ),
    PageLink("/limits", "Limits", Role.READ),
    PageLink("/nodes", "Nodes", Role.OPERATOR),
)


def is_here(entry: PageLink, path: str) -> bool:
    """Whether a path is of this page, or of one below it."""
    return path == entry.path or (entry.path != "/" and path.startswith(f"{entry.path}/"))
