"""Verifies the signatures of webhook calls (Standard Webhooks)."""

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from gnomon.access.webhook_secret import (
    PUBLIC_PREFIX,
    Scheme,
    content_of,
    public_bytes,
    secret_bytes,
    signer,
)

TOLERANCE_SECONDS = 300.0

_SECONDS = re.compile(r"[0-9]{1,12}")


def check_secret(secret: str) -> None:
    """Raises ValueError unless it is a `whsec_` secret or a `whpk_` public key."""
    if secret.startswith(PUBLIC_PREFIX):
        public_bytes(secret)
    else:
        secret_bytes(secret)


def verify(
    secrets: Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> bool:
    """Whether the call was signed with one of these (`whsec_` secrets, `whpk_` public keys) within
    the last or next `tolerance_seconds`. Header names are in lower case."""
    timestamp = headers.get("webhook-timestamp", "")
    if not _SECONDS.fullmatch(timestamp):
        return False
    if abs(now.timestamp() - int(timestamp)) > tolerance_seconds:
        return False
    message_id = headers.get("webhook-id", "").encode(errors="replace").decode()
    content = content_of(message_id, timestamp, body)
    given = headers.get("webhook-signature", "").encode(errors="replace").split()
    return any(_signed(secret, content, given) for secret in secrets)


def _signed(secret: str, content: bytes, given: Iterable[bytes]) -> bool:
    if secret.startswith(PUBLIC_PREFIX):
        return any(_signed_by(public_bytes(secret), content, each) for each in given)
    expected = signer(Scheme.V1, secret)(content).encode()
    return any(hmac.compare_digest(expected, each) for each in given)


def _signed_by(public_key: bytes, content: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    scheme, _, encoded = signature.partition(b",")
    if scheme != Scheme.V1A.encode():
        return False
    try:
        decoded = base64.b64decode(encoded, validate=True)
        Ed25519PublicKey.from_public_bytes(public_key).verify(decoded, content)
    except (InvalidSignature, binascii.Error):
        return False
    return True
