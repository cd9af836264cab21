"""API keys and webhook secrets. Answers with a secret are not stored, so they take no
Idempotency-Key: a request that is cut off is not repeated."""

from typing import TypeAlias
from uuid import UUID

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.access import (
    KeyInfo,
    KeySpec,
    NewKeyInfo,
    OperatorKeySpec,
    WebhookKeyInfo,
    WebhookSecretInfo,
    WebhookSecretSpec,
)

Id: TypeAlias = str | UUID

_KEYS = "/keys"
_OPERATOR_KEYS = "/operator-keys"
_SECRETS = "/webhook-secrets"


def create_key(key: KeySpec) -> Call[NewKeyInfo]:
    """Creates an API key."""
    return Call(method="POST", path=_KEYS, body=key, answer=NewKeyInfo)


def list_keys(*, limit: int | None = None, cursor: str | None = None) -> Listing[KeyInfo]:
    """Lists the API keys that may do no more than yours, newest first."""
    return Listing(path=_KEYS, member="keys", item=KeyInfo, limit=limit, cursor=cursor)


def rotate_key(key_id: Id, *, overlap_seconds: float | None = None) -> Call[NewKeyInfo]:
    """Creates a key that takes the place of this one, which ends after an overlap."""
    return _rotate(_KEYS, key_id, overlap_seconds)


def revoke_key(key_id: Id, *, cascade: bool = False) -> Call[None]:
    """Revokes a key; with `cascade` also those that were made with it, and with those."""
    return _revoke(_KEYS, key_id, cascade=cascade)


def create_operator_key(key: OperatorKeySpec) -> Call[NewKeyInfo]:
    """Creates an operator's API key."""
    return Call(method="POST", path=_OPERATOR_KEYS, body=key, answer=NewKeyInfo)


def list_operator_keys(*, limit: int | None = None, cursor: str | None = None) -> Listing[KeyInfo]:
    """Lists the API keys of operators, newest first."""
    return Listing(path=_OPERATOR_KEYS, member="keys", item=KeyInfo, limit=limit, cursor=cursor)


def rotate_operator_key(key_id: Id, *, overlap_seconds: float | None = None) -> Call[NewKeyInfo]:
    """Creates a key that takes the place of an operator's, which ends after an overlap."""
    return _rotate(_OPERATOR_KEYS, key_id, overlap_seconds)


def revoke_operator_key(key_id: Id, *, cascade: bool = False) -> Call[None]:
    """Revokes an operator's key; with `cascade` also those that were made with it."""
    return _revoke(_OPERATOR_KEYS, key_id, cascade=cascade)


def create_webhook_secret(secret: WebhookSecretSpec) -> Call[WebhookSecretInfo]:
    """Creates a webhook secret, for one host or for all others; returns it with its value."""
    return Call(method="POST", path=_SECRETS, body=secret, answer=WebhookSecretInfo)


def list_webhook_secrets() -> Call[list[WebhookSecretInfo]]:
    """Lists the webhook secrets of the tenant, newest first, without their values."""
    return Call(
        method="GET", path=_SECRETS, answer=list[WebhookSecretInfo], member="webhook_secrets"
    )


def show_webhook_secret(secret_id: Id) -> Call[WebhookSecretInfo]:
    """Reads a webhook secret with its value."""
    return Call(method="GET", path=_secret(secret_id), answer=WebhookSecretInfo)


def rotate_webhook_secret(
    secret_id: Id, *, overlap_seconds: float | None = None, secret: str | None = None
) -> Call[WebhookSecretInfo]:
    """Creates a secret that takes the place of this one; both sign during an overlap."""
    given = {"overlap_seconds": overlap_seconds, "secret": secret}
    body = {name: value for name, value in given.items() if value is not None}
    path = f"{_secret(secret_id)}/rotate"
    return Call(method="POST", path=path, body=body, answer=WebhookSecretInfo)


def revoke_webhook_secret(secret_id: Id) -> Call[None]:
    """Revokes a webhook secret: within a second no node signs with it."""
    return Call(method="DELETE", path=_secret(secret_id))


def list_webhook_keys(tenant_id: str) -> Call[list[WebhookKeyInfo]]:
    """Lists the public keys that a tenant's v1a signatures are checked with."""
    path = f"/webhook-keys/{segment(tenant_id)}"
    return Call(method="GET", path=path, answer=list[WebhookKeyInfo], member="keys")


def _rotate(root: str, key_id: Id, overlap_seconds: float | None) -> Call[NewKeyInfo]:
    body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
    path = f"{root}/{segment(key_id)}/rotate"
    return Call(method="POST", path=path, body=body, answer=NewKeyInfo)


def _revoke(root: str, key_id: Id, *, cascade: bool) -> Call[None]:
    query = {"cascade": True} if cascade else {}
    return Call(method="DELETE", path=f"{root}/{segment(key_id)}", query=query)


def _secret(secret_id: Id) -> str:
    return f"{_SECRETS}/{segment(secret_id)}"
