"""Errors about API keys: see errors.py."""

from collections.abc import Sequence
from uuid import UUID

from gnomon.model.errors import GnomonError


class KeyNotFound(GnomonError):
    """No such API key for this tenant."""

    def __init__(self, key_id: UUID | str) -> None:
        super().__init__(f"there is no API key {key_id}")
        self.key_id = key_id


class TooManyKeys(GnomonError):
    """A tenant has as many live keys of one name as it may have."""

    def __init__(self, name: str, ids: Sequence[UUID]) -> None:
        old, new = ids[0], ids[-1]
        super().__init__(
            f"two keys named {name!r} are live already: {old} and, since, {new}; "
            f"revoke the older one once nobody uses it, or choose another name"
        )
        self.name = name
        self.ids = ids


class KeyRingFull(GnomonError):
    """A tenant has as many live keys as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"the tenant has {most} live keys, the most that it may; revoke some first"
        )


class KeyEnded(GnomonError):
    """The key was revoked, or has expired."""

    def __init__(self, key_id: UUID) -> None:
        super().__init__(f"the API key {key_id} has ended, so it cannot be rotated; make a new one")
        self.key_id = key_id
