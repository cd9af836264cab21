"""Checks that a webhook call comes from whoever holds the secret (Standard Webhooks)."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300.0

_SECONDS = re.compile(r"[0-9]{1,12}")


def key_of(secret: str) -> bytes:
    """The bytes of a secret: `whsec_` and base64. Raises ValueError where it is neither."""
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a webhook secret is {PREFIX} and base64: {error}") from error


def verify(key: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Whether the call is signed with `key`, and about now. Header names are in lower case."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not _SECONDS.fullmatch(timestamp):
        return False
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = f"{message_id}.{timestamp}.".encode(errors="replace") + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    candidates = headers.get("webhook-signature", "").encode(errors="replace").split()
    return any(hmac.compare_digest(expected, candidate) for candidate in candidates)
