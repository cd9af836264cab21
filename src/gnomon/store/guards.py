"""Address guards by tenant: which addresses their webhooks may reach."""

from functools import lru_cache

from gnomon.access.addresses import AddressGuard
from gnomon.store.tenant_cache import TenantCache


class Guards:
    """On while authentication is. A tenant may have networks of its own beside those of the
    settings."""

    def __init__(self, directory: TenantCache, allow: tuple[str, ...]) -> None:
        self._directory = directory
        self._allow = allow

    def of(self, tenant_id: str) -> AddressGuard | None:
        """None: every address may be called. Tenants with the same networks have the same guard."""
        if not self._directory.authentication:
            return None
        return _guard(self._allow + self._directory.tenant(tenant_id).targets_allow)


@lru_cache(maxsize=1024)
def _guard(allow: tuple[str, ...]) -> AddressGuard:
    return AddressGuard(allow)
