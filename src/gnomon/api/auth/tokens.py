"""Tokens (JWT), which an issuer elsewhere has made and signed."""

import hashlib
from datetime import UTC, datetime
from typing import Any, TypeGuard

import jwt
import msgspec

from gnomon.access.principal import Operator, Principal, Requester, Role, tenant_roles_of
from gnomon.api.auth.jwks import Jwks, jwks_at
from gnomon.clock import Clock
from gnomon.settings import AuthSettings
from gnomon.store.tenant_cache import TenantCache

TRUST_SECONDS = 0.5  # a checked token is checked again after that, like a key
LEEWAY_SECONDS = 30.0
MOST_CHARACTERS = 8192
MOST_REMEMBERED = 10_000
MOST_NAME_CHARACTERS = 255
_LATEST = datetime(2199, 12, 31, tzinfo=UTC).timestamp()
_END_OF_TIME = 2**53  # nothing is lost in a float up to here, and nothing overflows

_OPERATOR = [Role.OPERATOR]  # all that the roles of an operator's token are
# Times are checked here, by the one clock that there is.
_OPTIONS: Any = {
    "require": ["exp", "iss", "aud"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "enforce_minimum_key_length": True,
}


class _Checked(msgspec.Struct, frozen=True):
    requester: Requester
    until: float  # on the monotonic clock


class Tokens:
    """Checks tokens of one issuer."""

    def __init__(
        self, settings: AuthSettings, jwks: Jwks, directory: TenantCache, clock: Clock
    ) -> None:
        self._settings = settings
        self._jwks = jwks
        self._directory = directory
        self._clock = clock
        self._checked: dict[bytes, _Checked] = {}

    async def run(self) -> None:
        await self._jwks.run()

    async def requester(self, token: str) -> Requester | None:
        """The sender of this token; None where it is not valid."""
        if len(token) > MOST_CHARACTERS or not token.isascii():
            return None
        digest = _digest(token)
        known = self._checked.get(digest)
        now = self._clock.monotonic()
        if known is not None and now < known.until:
            return known.requester
        requester = await self._check(token)
        if requester is None:
            self._checked.pop(digest, None)
            return None
        if len(self._checked) >= MOST_REMEMBERED:
            self._checked.clear()
        self._checked[digest] = _Checked(requester, now + TRUST_SECONDS)
        return requester

    def holder(self, token: str) -> tuple[str | None, str | None] | None:
        """The tenant (None: an operator) and subject of a token that was valid when it was last
        checked."""
        if len(token) > MOST_CHARACTERS or not token.isascii():
            return None
        known = self._checked.get(_digest(token))
        if known is None:
            return None
        requester = known.requester
        return requester.tenant_id if isinstance(requester, Principal) else None, requester.name

    async def _check(self, token: str) -> Requester | None:
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            # What an extension asks for under `crit`, we would not do.
            if algorithm not in self._settings.jwt_algorithms or "crit" in header:
                return None
            key = await self._jwks.find(kid, algorithm) if isinstance(kid, str) else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.jwt_audience,
                issuer=self._settings.jwt_issuer,
                options=_OPTIONS,
            )
        except (jwt.PyJWTError, ValueError):
            return None
        return self._believed(claims) if self._is_current(claims) else None

    def _is_current(self, claims: dict[str, Any]) -> bool:
        now = self._clock.now().timestamp()
        expires, begins, issued = claims.get("exp"), claims.get("nbf", 0), claims.get("iat", 0)
        return (
            _is_time(expires)
            and _is_time(begins)
            and _is_time(issued)
            and now < expires + LEEWAY_SECONDS
            and now >= begins - LEEWAY_SECONDS
            and now >= issued - LEEWAY_SECONDS
        )

    def _believed(self, claims: dict[str, Any]) -> Requester | None:
        roles = claims.get(self._settings.jwt_roles_claim)
        if isinstance(roles, str):
            roles = roles.split()
        if not isinstance(roles, list):
            roles = []
        subject = claims.get("sub")
        if subject is not None and not _is_name(subject):
            return None
        expires_at = _moment(claims["exp"])
        if self._settings.jwt_tenant_claim not in claims:
            # A tenant that was merely forgotten must not make an operator: no other role beside it.
            return Operator(name=subject, expires_at=expires_at) if roles == _OPERATOR else None
        tenant_id = claims[self._settings.jwt_tenant_claim]
        if not isinstance(tenant_id, str) or not self._directory.knows(tenant_id):
            return None
        return Principal(
            tenant_id=tenant_id, name=subject, roles=tenant_roles_of(roles), expires_at=expires_at
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) < _END_OF_TIME


def _moment(seconds: float) -> datetime:
    """The moment, or the last one that can be stored."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LATEST), UTC)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= MOST_NAME_CHARACTERS


def tokens_of(settings: AuthSettings, directory: TenantCache, clock: Clock) -> Tokens | None:
    """The checker of tokens, where the settings configure one. Raises SettingsError."""
    if not settings.accepts_tokens:
        return None
    assert settings.jwt_jwks, "checked with the settings"
    jwks = jwks_at(settings.jwt_jwks, clock, settings.jwt_keep_seconds)
    return Tokens(settings, jwks, directory, clock)
