"""Who makes a request, and what they may do."""

from collections.abc import Container
from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a key or token may do. `admin` may do everything within its tenant."""

    SUBMIT = "submit"  # make work: tasks, and cron jobs with their runs
    READ = "read"  # see what there is
    OPERATE = "operate"  # change what there is: cancel, pause, retry, dead letters, ...
    ADMIN = "admin"  # keys, limiters, task types, usage


ALL_ROLES = frozenset(Role)


def roles_of(names: Container[object]) -> frozenset[Role]:
    """The roles among these; what a later version may call a role gives no right here."""
    return frozenset(role for role in Role if role in names)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The one who asks, within a tenant."""

    tenant_id: str
    name: str | None  # kept as `created_by`: the key's name, or the subject of the token
    roles: frozenset[Role]
    task_types: frozenset[str] | None = None  # that it may submit; None: all

    def may(self, role: Role) -> bool:
        return role in self.roles or Role.ADMIN in self.roles

    def may_submit(self, task_type: str) -> bool:
        return self.task_types is None or task_type in self.task_types
