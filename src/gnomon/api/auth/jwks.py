"""The public keys that tokens are checked with, from a file or from their issuer's server."""

import asyncio
import ipaddress
import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import jwt
import msgspec
import structlog

from gnomon.api.http.answers.problems import RequestError
from gnomon.clock import Clock
from gnomon.settings import SettingsError

MOST_BYTES = 256 * 1024
FETCH_SECONDS = 5.0
REFRESH_SECONDS = 300.0
AGAIN_SECONDS = 30.0  # for the sake of a key that is not known, and after a failure

log = structlog.get_logger("gnomon.api")


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class KeySet:
    """Keys by their ids. A key is used with one algorithm: the one that it names, or fits."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError where it is no JWKS."""
        try:
            keys = msgspec.json.decode(content, type=_Document).keys
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"it is no JSON Web Key Set: {error}") from error
        self._keys = {key["kid"]: key for key in keys if _usable(key)}
        self._made: dict[tuple[str, str], jwt.PyJWK] = {}

    def __contains__(self, kid: str) -> bool:
        return kid in self._keys

    def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        data = self._keys.get(kid)
        if data is None or data.get("alg", algorithm) != algorithm:
            return None
        found = self._made.get((kid, algorithm))
        if found is None:
            try:
                found = self._made[kid, algorithm] = jwt.PyJWK(data, algorithm)
            except jwt.PyJWTError:
                return None  # another kind of key
        return found


def _usable(key: dict[str, Any]) -> bool:
    """Whether it is a public key for signatures: with a shared secret, its users could sign."""
    return isinstance(key.get("kid"), str) and key.get("kty") != "oct" and key.get("use") != "enc"


class Jwks(Protocol):
    """A source of keys."""

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """The key of this id."""

    async def run(self) -> None:
        """Keep the keys fresh."""


class FileJwks:
    """A file, read again when it changes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: tuple[int, int] | None = None
        try:
            self._stamp, self._keys = self._read()
        except (OSError, ValueError) as error:
            raise SettingsError(f"auth.jwt_jwks names {file}: {error}") from error

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        try:
            if self._stamp != _stamp(self._file):
                self._stamp, self._keys = self._read()
        except (OSError, ValueError) as error:
            log.warning("the JWKS cannot be read; the one before stays", why=str(error))
        return self._keys.find(kid, algorithm)

    async def run(self) -> None:
        """Nothing to do: `find` checks the file itself, which costs little."""

    def _read(self) -> tuple[tuple[int, int], KeySet]:
        return _stamp(self._file), KeySet(self._file.read_bytes())


def _stamp(file: Path) -> tuple[int, int]:
    status = os.stat(file)  # noqa: PTH116 - a third of the cost of Path.stat
    return status.st_mtime_ns, status.st_ino


class UrlJwks:
    """A server, asked every few minutes and for an unknown key. While it does not answer, its last
    keys stay valid for a limited time: the issuer may have withdrawn one."""

    def __init__(self, url: str, clock: Clock, keep_seconds: float) -> None:
        self._url = url
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._keys: KeySet | None = None
        self._read_at = 0.0
        self._tried_at: float | None = None
        self._asking = asyncio.Lock()

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        if self._lacks(kid):
            async with self._asking:
                if self._lacks(kid):
                    await self._refresh()
        keys = self._held()
        if keys is None:
            raise RequestError(503, "the keys of the issuer of tokens cannot be read; try again")
        return keys.find(kid, algorithm)

    async def run(self) -> None:
        while True:
            failing = self._tried_at is not None and self._tried_at > self._read_at
            await self._clock.sleep(AGAIN_SECONDS if failing else REFRESH_SECONDS)
            async with self._asking:
                await self._refresh()

    def _lacks(self, kid: str) -> bool:
        """Whether to ask for an unknown key now; not for each, because ids can be made up."""
        keys = self._held()
        if keys is not None and kid in keys:
            return False
        tried = self._tried_at
        return tried is None or self._clock.monotonic() >= tried + AGAIN_SECONDS

    def _held(self) -> KeySet | None:
        """The last keys, unless they are too old."""
        fresh = self._clock.monotonic() < self._read_at + self._keep_seconds
        return self._keys if fresh else None

    async def _refresh(self) -> None:
        asked_at = self._tried_at = self._clock.monotonic()
        try:
            self._keys = KeySet(await _fetched(self._url))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            left = 0.0
            if self._keys is not None:
                left = max(0.0, self._read_at + self._keep_seconds - asked_at)
            log.warning("the JWKS cannot be read", why=str(error), keys_stay_seconds=round(left))
        else:
            self._read_at = asked_at


async def _fetched(url: str) -> bytes:
    """Raises the errors of aiohttp, and ValueError where the answer is no key set."""
    timeout = aiohttp.ClientTimeout(total=FETCH_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, allow_redirects=False) as response,
    ):
        if response.status != 200:
            raise ValueError(f"the answer is {response.status}")
        content = await response.content.read(MOST_BYTES + 1)
        while len(content) <= MOST_BYTES and (more := await response.content.read(MOST_BYTES)):
            content += more
        if len(content) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        return content


def jwks_at(place: str, clock: Clock, keep_seconds: float) -> Jwks:
    """The keys at a path or URL. Raises SettingsError."""
    parts = urlsplit(place)
    if parts.scheme not in ("http", "https"):
        return FileJwks(Path(place))
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise SettingsError(
            "auth.jwt_jwks must be a file or an https URL: anybody could answer http"
        )
    return UrlJwks(place, clock, keep_seconds)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
