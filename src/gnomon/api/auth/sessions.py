"""Sessions of people: a key or token, exchanged for a cookie.

A session holds the credentials that it was made with, and each request is authenticated by them: it
ends when the key is revoked or expires, and can never do more than the key. They are encrypted
under the cookie, which nobody but the browser has: who reads the table learns neither.
"""

import hashlib
from datetime import timedelta

from gnomon.clock import Clock, new_secret
from gnomon.store.postgres.identity.sessions import PostgresSessions

COOKIE = "gnomon_session"
LONGEST = timedelta(hours=12)
_BYTES = 32
_CHARACTERS = 2 * _BYTES
_NONCE = bytes(12)  # each key encrypts one message only


class Sessions:
    """Begins, recognises and ends sessions."""

    def __init__(self, store: PostgresSessions, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin(self, credentials: str) -> str:
        """A session for credentials that were checked. Returns its cookie."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import

        cookie = new_secret(_BYTES).hex()
        sealed = AESGCM(_key(cookie)).encrypt(_NONCE, credentials.encode(), None)
        await self._store.add(_name(cookie), sealed, self._clock.now() + LONGEST)
        return cookie

    async def authorization(self, cookie: str | None) -> str | None:
        """The header `Authorization` that stands behind a cookie. Raises StoreUnavailable."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if cookie is None:
            return None
        sealed = await self._store.find(_name(cookie), self._clock.now())
        if sealed is None:
            return None
        return "Bearer " + AESGCM(_key(cookie)).decrypt(_NONCE, sealed, None).decode()

    async def end(self, cookie: str | None) -> None:
        if cookie is not None:
            await self._store.remove(_name(cookie))


def cookie_in(header: str | None) -> str | None:
    """The cookie of a session in the header `Cookie`; None where there is none that could be."""
    for part in (header or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and len(value) == _CHARACTERS and value.isalnum() and value.isascii():
            return value
    return None


def set_cookie(cookie: str | None, *, secure: bool) -> str:
    """The header `Set-Cookie`; None removes it."""
    age = 0 if cookie is None else int(LONGEST.total_seconds())
    flags = "; Secure" if secure else ""
    return f"{COOKIE}={cookie or ''}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{flags}"


def _key(cookie: str) -> bytes:
    return hashlib.sha256(b"gnomon session key " + cookie.encode()).digest()


def _name(cookie: str) -> bytes:
    return hashlib.sha256(b"gnomon session name " + cookie.encode()).digest()
