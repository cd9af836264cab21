"""Webhook secrets: how they are written, which of them sign a call, and their signatures.

After the Standard Webhooks specification: `v1` is HMAC-SHA256 under a secret that both sides know
(`whsec_`), `v1a` is Ed25519 under a key (`whsk_`) whose public half (`whpk_`) anybody may know.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from gnomon.model.remembered import remembered

SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins
PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"
FEWEST_BYTES, MOST_BYTES = 24, 64  # of a v1 secret, as the specification says
ED25519_BYTES = 32
MOST_LIVE = 100  # of one tenant
MOST_TOGETHER = 4  # that sign one call: two schemes, each in a rotation
MOST_ENDED = 100  # that a tenant's list still shows
MOST_HOST_CHARACTERS = 253

_NAME = re.compile(
    r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)

Sign = Callable[[bytes], str]


class Scheme(StrEnum):
    """How a call is signed, by the name that begins its signature."""

    V1 = "v1"
    V1A = "v1a"


class WebhookSecret(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a secret, without its value."""

    id: UUID
    tenant_id: str
    host: str | None  # whose calls it signs; None: of all hosts without a secret of their own
    scheme: Scheme
    public_key: str | None
    created_at: datetime
    created_by: str | None
    shared_until: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class PublicKey(msgspec.Struct, frozen=True):
    """A public key, which checks a tenant's v1a signatures."""

    id: UUID
    public_key: str
    expires_at: datetime | None


class SigningSecret(msgspec.Struct, frozen=True):
    """A secret that a node signs with. Its repr hides the value, because it may be logged."""

    id: UUID
    host: str | None
    scheme: str
    secret: str
    shared_until: datetime | None
    expires_at: datetime | None

    def __repr__(self) -> str:
        return f"SigningSecret({self.id})"

    def live(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at

    def shared(self, now: datetime) -> bool:
        return self.shared_until is not None and now < self.shared_until


def chosen(secrets: Iterable[SigningSecret], host: str, now: datetime) -> list[SigningSecret]:
    """The secrets that sign a call to a host: the host's own, else the tenant's; both while the
    host's own are new."""
    live = [each for each in secrets if each.live(now)]
    own = [each for each in live if each.host == host]
    if not own or any(each.shared(now) for each in own):
        own += [each for each in live if each.host is None]
    return own


def changes_at(secrets: Iterable[SigningSecret], now: datetime) -> datetime | None:
    """The next moment at which another choice among these secrets may apply."""
    moments = (at for each in secrets for at in (each.expires_at, each.shared_until))
    return min((at for at in moments if at is not None and at > now), default=None)


def signer(scheme: str, secret: str) -> Sign:
    """The function that signs with a secret. Raises ValueError where it is not valid."""
    if scheme == Scheme.V1:
        return partial(_sign_v1, secret_bytes(secret))
    if scheme == Scheme.V1A:
        # Not above: few use it, and it takes longer to import than all the rest.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(_decoded(secret, PRIVATE_PREFIX))
        return lambda content: f"v1a,{base64.b64encode(private.sign(content)).decode()}"
    raise ValueError(f"the scheme {scheme!r} is not known")


def _sign_v1(key: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def content_of(message_id: str, timestamp: str, body: bytes) -> bytes:
    """The bytes that are signed."""
    return f"{message_id}.{timestamp}.".encode() + body


def signatures(signers: Sequence[Sign], content: bytes) -> str:
    """The header `webhook-signature`."""
    return " ".join([sign(content) for sign in signers])


def secret_bytes(secret: str) -> bytes:
    """The key in a v1 secret. Raises ValueError, which does not show it."""
    key = _decoded(secret, SECRET_PREFIX)
    if not FEWEST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"a webhook secret is {FEWEST_BYTES} to {MOST_BYTES} bytes; this one is {len(key)}"
        )
    return key


def public_bytes(public_key: str) -> bytes:
    """The key in a `whpk_`. Raises ValueError."""
    return _decoded(public_key, PUBLIC_PREFIX)


def key_pair(chance: bytes) -> tuple[str, str]:
    """The private and the public key that ED25519_BYTES random bytes make."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(chance).public_key().public_bytes_raw()
    return _encoded(PRIVATE_PREFIX, chance), _encoded(PUBLIC_PREFIX, public)


def _encoded(prefix: str, key: bytes) -> str:
    return prefix + base64.b64encode(key).decode()


def _decoded(text: str, prefix: str) -> bytes:
    if not text.startswith(prefix):
        raise ValueError(f"a webhook secret is {prefix} and base64; this one begins otherwise")
    try:
        return base64.b64decode(text.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"a webhook secret is {prefix} and base64: {error}") from None


@remembered
def host_in(url: str) -> str:
    """The host that a URL names, as `normal_host` writes it."""
    host = urlsplit(url).hostname or ""
    return normal_host(host) or host


def normal_host(text: str) -> str | None:
    """A host name or address, in lower case and ASCII, without a port; None where it is none."""
    host = text.rstrip(".").lower()
    if ":" in host:
        return _address(host.removeprefix("[").removesuffix("]"))
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return None
    fits = len(host) <= MOST_HOST_CHARACTERS and _NAME.fullmatch(host)
    return host if fits else None


def _address(text: str) -> str | None:
    from ipaddress import IPv6Address

    try:
        return str(IPv6Address(text))
    except ValueError:
        return None
