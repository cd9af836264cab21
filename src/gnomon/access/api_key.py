"""API keys: their format, and the record of one."""

import hashlib
import zlib
from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.access.principal import Grant, Operator, Principal, Requester, Role
from gnomon.model.targets.allow_list import EVERYTHING, AllowList

PREFIX = "gn_"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_CHARACTERS = 32  # 190 bits
CHECK_CHARACTERS = 6  # room for 32 bits
HINT_CHARACTERS = 8
KEY_CHARACTERS = len(PREFIX) + RANDOM_CHARACTERS + CHECK_CHARACTERS
# More than the characters hold, so that none of them is noticeably likelier than the others.
RANDOM_BYTES = 32
MOST_LIVE_KEYS = 2  # of one name: the one in use, and the one that takes its place
MOST_KEYS = 1_000  # live ones of a tenant, or of the operators
MOST_ENDED_KEYS = 1_000  # that their list still shows


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a key. The key itself is known to its holder alone."""

    id: UUID
    tenant_id: str | None  # None: an operator's
    name: str
    hint: str
    roles: frozenset[Role]
    task_types: frozenset[str] | None
    queues: frozenset[str] | None = None
    allow: AllowList = EVERYTHING
    created_at: datetime
    created_by: str | None
    made_by: UUID | None = None  # the key that it was made with, over the API
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @property
    def grant(self) -> Grant:
        return Grant(
            roles=self.roles, task_types=self.task_types, queues=self.queues, allow=self.allow
        )

    @property
    def requester(self) -> Requester:
        """The requester who sends this key."""
        if self.tenant_id is None:
            return Operator(name=self.name, key_id=self.id, expires_at=self.expires_at)
        return Principal(
            tenant_id=self.tenant_id,
            name=self.name,
            roles=self.roles,
            task_types=self.task_types,
            queues=self.queues,
            allow=self.allow,
            key_id=self.id,
            expires_at=self.expires_at,
        )


def key_from(chance: bytes) -> str:
    """The key that RANDOM_BYTES random bytes make."""
    number = int.from_bytes(chance) % 62**RANDOM_CHARACTERS
    body = PREFIX + _written(number, RANDOM_CHARACTERS)
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Whether it could be a key: a mistyped, truncated or made-up one fails without a lookup."""
    body, checksum = text[:-CHECK_CHARACTERS], text[-CHECK_CHARACTERS:]
    return (
        len(text) == KEY_CHARACTERS
        and text.startswith(PREFIX)
        and text.isascii()
        and checksum == _checksum(body)
    )


def hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def hint_of(key: str) -> str:
    """Enough to recognise a key by, and no help in guessing it."""
    return key[:HINT_CHARACTERS]


def _checksum(body: str) -> str:
    return _written(zlib.crc32(body.encode()), CHECK_CHARACTERS)


def _written(number: int, characters: int) -> str:
    digits = []
    for _ in range(characters):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
