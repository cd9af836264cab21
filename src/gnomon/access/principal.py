"""The requester of a request, and what they may do."""

from collections.abc import Container
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.targets.allow_list import EVERYTHING, AllowList


class Role(StrEnum):
    """A right of a key or token. `admin` includes all others of a tenant; `operator` is the only
    role outside of tenants, and includes none of theirs."""

    SUBMIT = "submit"  # create tasks, and cron jobs with their runs
    READ = "read"
    WORK = "work"  # run tasks, as a remote worker
    OPERATE = "operate"  # change what exists: cancel, pause, retry, dead letters, ...
    ADMIN = "admin"  # keys, limiters, task types, usage
    OPERATOR = "operator"  # the installation: tenants, plans, nodes


TENANT_ROLES = frozenset(Role) - {Role.OPERATOR}
OPERATOR_ROLES = frozenset({Role.OPERATOR})


def tenant_roles_of(names: Container[object]) -> frozenset[Role]:
    """The roles of a tenant among these names; others give no right within a tenant."""
    return frozenset(role for role in TENANT_ROLES if role in names)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Rights: roles, and the part of the tenant's work that they are restricted to."""

    roles: frozenset[Role]
    task_types: frozenset[str] | None = None  # that they may submit, or run; None: all
    queues: frozenset[str] | None = None  # whose tasks they may run; None: all
    allow: AllowList = EVERYTHING

    @property
    def limited(self) -> bool:
        """Whether they are restricted to part of the tenant's work."""
        return self.task_types is not None or self.allow.limits

    def may(self, role: Role) -> bool:
        return role in self.roles or (role in TENANT_ROLES and Role.ADMIN in self.roles)

    def may_submit(self, task_type: str) -> bool:
        return self.task_types is None or task_type in self.task_types

    def covers_types(self, other: "Grant") -> bool:
        own, others = self.task_types, other.task_types
        return own is None or (others is not None and others <= own)

    def covers_queues(self, other: "Grant") -> bool:
        own, others = self.queues, other.queues
        return own is None or (others is not None and others <= own)

    def covers(self, other: "Grant") -> bool:
        """Whether the other grant allows nothing beyond this one."""
        return (
            all(map(self.may, other.roles))
            and self.covers_types(other)
            and self.covers_queues(other)
            and self.allow.covers(other.allow)
        )


class Requester(Grant, frozen=True, kw_only=True):
    """The sender of a request: of a tenant, or of the installation."""

    name: str | None  # stored as `created_by`: the key's name, or the subject of the token
    key_id: UUID | None = None  # None: a token, or authentication is off
    expires_at: datetime | None = None  # of the key or the token


class Principal(Requester, frozen=True, kw_only=True):
    """A requester within a tenant."""

    tenant_id: str


class Operator(Requester, frozen=True, kw_only=True):
    """A requester of the installation, who belongs to no tenant: there is no tenant to act in."""

    roles: frozenset[Role] = OPERATOR_ROLES
