"""Who makes a request, and what they may do."""

from collections.abc import Container
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.allow_list import EVERYTHING, AllowList


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


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody may do within a tenant."""

    roles: frozenset[Role]
    task_types: frozenset[str] | None = None  # that they may submit; None: all
    allow: AllowList = EVERYTHING

    @property
    def limited(self) -> bool:
        """Whether they are held to part of the tenant's work."""
        return self.task_types is not None or self.allow.limits

    def may(self, role: Role) -> bool:
        return role in self.roles or Role.ADMIN in self.roles

    def may_submit(self, task_type: str) -> bool:
        return self.task_types is None or task_type in self.task_types

    def covers_types(self, other: "Grant") -> bool:
        own, others = self.task_types, other.task_types
        return own is None or (others is not None and others <= own)

    def covers(self, other: "Grant") -> bool:
        """Whether the other may do nothing that is not allowed here."""
        return (
            all(map(self.may, other.roles))
            and self.covers_types(other)
            and self.allow.covers(other.allow)
        )


class Principal(Grant, frozen=True, kw_only=True):
    """The one who asks, within a tenant."""

    tenant_id: str
    name: str | None  # kept as `created_by`: the key's name, or the subject of the token
    key_id: UUID | None = None  # None: a token, or nobody was asked
    expires_at: datetime | None = None  # of the key or the token
