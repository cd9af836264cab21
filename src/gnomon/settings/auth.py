"""Section `auth`: whether requests need a key or a token, and whose tokens are accepted."""

from typing import ClassVar

from gnomon.settings.section import Section

# Those with a public and a private half. With a shared secret whoever checks could sign as well,
# and a public key could be passed off as the secret.
ALGORITHMS = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
_NEEDED = ("jwt_issuer", "jwt_audience", "jwt_jwks")


class AuthSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "auth"

    # Without it only loopback is served, as the tenant `default`. None: as the database says.
    enabled: bool | None = None
    jwt_issuer: str | None = None  # tokens are accepted where all of these three are set
    jwt_audience: str | None = None
    jwt_jwks: str | None = None  # a file, or an https URL
    jwt_keep_seconds: float = 24 * 3600.0  # the last keys of a URL that does not answer
    jwt_algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    jwt_tenant_claim: str = "tenant"
    jwt_roles_claim: str = "roles"

    def __post_init__(self) -> None:
        self.require_positive("jwt_keep_seconds")
        rule = f"be among {', '.join(sorted(ALGORITHMS))}, not {', '.join(self.jwt_algorithms)}"
        safe = bool(self.jwt_algorithms) and ALGORITHMS.issuperset(self.jwt_algorithms)
        self.require("jwt_algorithms", rule, holds=safe)
        for name in _NEEDED:
            complete = bool(getattr(self, name)) or not self.accepts_tokens
            self.require(name, "be set too: tokens cannot be checked without it", holds=complete)

    @property
    def accepts_tokens(self) -> bool:
        return any(getattr(self, name) for name in _NEEDED)
