"""Section `auth`: whether requests need a key or a token, and whose tokens are accepted."""

from typing import ClassVar

from gnomon.settings.section import Section


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
