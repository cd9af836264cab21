"""Errors of webhook secrets. Part of the tree in errors.py."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class SecretNotFound(GnomonError):
    """The tenant has no webhook secret of this id."""

    def __init__(self, secret_id: UUID | str) -> None:
        super().__init__(f"webhook secret {secret_id} not found")
        self.secret_id = secret_id


class TooManySecrets(GnomonError):
    """A tenant has as many live webhook secrets as it may have, or one call would be signed too
    often."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"{detail}; revoke one first")


class SecretEnded(GnomonError):
    """The webhook secret was revoked, has expired, or is being replaced."""

    def __init__(self, secret_id: UUID) -> None:
        super().__init__(
            f"webhook secret {secret_id} has ended, or ends after a rotation, so it cannot be "
            "rotated; rotate the one that took its place"
        )
        self.secret_id = secret_id


class LastSecret(GnomonError):
    """The last webhook secret of a tenant, without which its calls would not be signed."""

    def __init__(self, secret_id: UUID) -> None:
        super().__init__(
            f"webhook secret {secret_id} is the only one that signs the tenant's calls and lasts; "
            "rotate it with an overlap of 0, which replaces it at once, or create another first"
        )
        self.secret_id = secret_id
