"""Whether an answer is what the key that asked is good for."""

import re
from typing import Any, NamedTuple

from gnomon.access.principal import Role

_SECRET = "the header gnomon-session-secret is missing or wrong"
_TASK_TYPE = re.compile(r'"task_type":"([^"]*)"')


class Key(NamedTuple):
    """A key that the crawl asks with. Roles: those that it gives, at present."""

    kind: str
    secret: str | None
    roles: frozenset[Role]
    task_type: str | None = None  # all that it may submit

    def may(self, role: Role | None) -> bool:
        if role is None or role in self.roles:
            return True
        return Role.ADMIN in self.roles and role is not Role.OPERATOR

    @property
    def of_operator(self) -> bool:
        """Whether it belongs to no tenant."""
        return Role.OPERATOR in self.roles


def roles_of(document: Any) -> dict[str, Role | None]:
    """The role that each operation declares, by its label; None: open to all."""
    return {
        f"{method.upper()} {path}": Role(declared[0]["key"][0]) if declared else None
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for declared in [operation.get("security")]
    }


def fault(key: Key, role: Role | None, status: int, text: str, *, plain: bool) -> str | None:
    """What is wrong with an answer to an operation of that role. `plain`: the path leads to that
    operation, whatever clients and servers make of it."""
    if not key.may(role):
        refused = status == (403 if key.roles else 401)
        if not refused and (plain or status < 400):
            return f"not refused, though it lacks the role {role}"
        return None
    if status == 403 and _SECRET in text:
        return None  # of a worker session: its key alone is not enough
    if status == 401 or (status == 403 and key.task_type is None):
        return f"refused, though it has the role {role}"
    if key.task_type is not None and role is Role.SUBMIT and status < 300:
        made = set(_TASK_TYPE.findall(text)) - {key.task_type}
        if made:
            return f"made something of type {made.pop()}, beyond its limits"
    return None
