"""Refusals of a requester who is known, but may not do this. Part of the tree in errors.py."""

from collections.abc import Iterable

from gnomon.model.errors import GnomonError, InvalidTask


class TypeForbidden(InvalidTask):
    """A task type outside of the list that a key was made with."""


class TargetForbidden(InvalidTask):
    """A target outside of the allow-list of a tenant or a key."""


class KeyForbidden(GnomonError):
    """An API key that may do more than the requester, who would revoke, replace or imitate it."""


class LimitedKey(GnomonError):
    """Something that affects all of a tenant's work, asked for with a key limited to part of it."""


class OperatorNeeded(GnomonError):
    """Something of the installation, asked for by a requester of a tenant."""

    def __init__(self, roles: Iterable[str]) -> None:
        had = ", ".join(sorted(roles)) or "none"
        super().__init__(
            "this concerns the whole installation, and needs the key or token of an operator; "
            f"yours is of a tenant, with the roles: {had}. Without a key, `gnomon keys create "
            "--operator` creates the first one on the database"
        )


class TenantNeeded(GnomonError):
    """Something of a tenant, asked for by an operator, who belongs to none."""

    def __init__(self, role: str) -> None:
        super().__init__(
            f"this needs a key or token of a tenant, with the role '{role}'; yours is an "
            "operator's: it manages tenants, and has no access to what is theirs"
        )
        self.role = role
