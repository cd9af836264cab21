"""The pages that are offered on every page, in groups and in their order."""

from collections.abc import Callable

import msgspec

from gnomon.access.principal import Role


class PageLink(msgspec.Struct, frozen=True):
    """A page and who is offered it. Whether it may be seen is decided by its route, again."""

    path: str
    name: str
    role: Role
    also: tuple[str, ...] = ()  # pages below these paths belong to it, too


class PageGroup(msgspec.Struct, frozen=True):
    """Pages of one purpose. Those of the first group that is offered are always in sight, those of
    the others in a menu."""

    name: str
    links: tuple[PageLink, ...]


GROUPS = (
    PageGroup(
        "Work",
        (
            PageLink("/", "Overview", Role.READ),
            PageLink("/tasks", "Tasks", Role.READ),
            PageLink("/dead-letters", "Dead letters", Role.READ),
            PageLink("/cron", "Recurring", Role.READ),
            PageLink("/workflows", "Workflows", Role.READ, ("/workflow-runs", "/batches")),
            PageLink("/bulk-operations", "Bulk", Role.READ),
            PageLink("/events", "Events", Role.READ),
        ),
    ),
    PageGroup(
        "Settings",
        (
            PageLink("/limits", "Limits", Role.READ),
            PageLink("/task-types", "Task types", Role.READ),
            PageLink("/subscriptions", "Notifications", Role.READ),
            PageLink("/usage", "Usage", Role.READ),
            PageLink("/keys", "Keys", Role.ADMIN),
            PageLink("/webhook-secrets", "Webhook secrets", Role.ADMIN),
        ),
    ),
    PageGroup(
        "Installation",
        (
            PageLink("/nodes", "Nodes", Role.OPERATOR),
            PageLink("/installation/events", "Installation events", Role.OPERATOR),
            PageLink("/tenants", "Tenants", Role.OPERATOR),
            PageLink("/fair-share", "Fair share", Role.OPERATOR),
            PageLink("/plans", "Plans", Role.OPERATOR),
            PageLink("/operator-keys", "Operator keys", Role.OPERATOR),
            PageLink("/operator-subscriptions", "Operator notifications", Role.OPERATOR),
        ),
    ),
)


class ShownGroup(msgspec.Struct, frozen=True):
    """A group as it is offered to somebody on a page."""

    name: str
    links: tuple[PageLink, ...]
    here: PageLink | None  # the page itself, or the one that it is below


def shown_groups(offered: Callable[[Role], bool], path: str) -> list[ShownGroup]:
    """The groups with anything in them that is offered."""
    found = []
    for group in GROUPS:
        links = tuple(link for link in group.links if offered(link.role))
        if links:
            here = next((link for link in links if is_here(link, path)), None)
            found.append(ShownGroup(group.name, links, here))
    return found


def is_here(link: PageLink, path: str) -> bool:
    """Whether a path is of this page, or of one below it."""
    own = (link.path, *link.also)
    return path in own or (link.path != "/" and any(path.startswith(f"{each}/") for each in own))
