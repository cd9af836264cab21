"""Calls of the API for administrators of a tenant, and for operators of the installation."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from gnomon.client.client import Client
from gnomon.client.paths import KEYS

Json = dict[str, Any]

_SECRETS = "/webhook-secrets"
_LARGEST_PAGE = {"limit": "500"}


class AdminClient(Client):
    """A client with the calls that manage access, tenants and nodes."""

    def keys(self, path: str = KEYS) -> AsyncIterator[Json]:
        """API keys of the tenant, or under OPERATOR_KEYS of the operators; newest first."""
        return self._pages(path, "keys", _LARGEST_PAGE)

    async def create_key(self, key: Json, path: str = KEYS) -> Json:
        """The record of the new key, and the `key`, which is shown only here."""
        return await self._call("POST", path, body=key)

    async def rotate_key(self, key_id: str, overlap_seconds: float, path: str = KEYS) -> Json:
        """The record of the key that takes its place, with the `key`."""
        body = {"overlap_seconds": overlap_seconds}
        return await self._call("POST", f"{path}/{quote(key_id, safe='')}/rotate", body=body)

    async def revoke_key(self, key_id: str, *, cascade: bool, path: str = KEYS) -> None:
        query = {"cascade": "true"} if cascade else {}
        await self._call("DELETE", f"{path}/{quote(key_id, safe='')}", query=query)

    async def webhook_secrets(self) -> Json:
        """The `webhook_secrets` of the tenant, newest first, without their values."""
        return await self._call("GET", _SECRETS)

    async def get_webhook_secret(self, secret_id: str) -> Json:
        """One of them with its value."""
        return await self._call("GET", f"{_SECRETS}/{quote(secret_id, safe='')}")

    async def create_webhook_secret(self, secret: Json) -> Json:
        """The new secret with its value."""
        return await self._call("POST", _SECRETS, body=secret)

    async def rotate_webhook_secret(self, secret_id: str, change: Json) -> Json:
        """The secret that takes its place, with its value."""
        path = f"{_SECRETS}/{quote(secret_id, safe='')}/rotate"
        return await self._call("POST", path, body=change)

    async def revoke_webhook_secret(self, secret_id: str) -> None:
        await self._call("DELETE", f"{_SECRETS}/{quote(secret_id, safe='')}")

    def tenants(self) -> AsyncIterator[Json]:
        """All tenants, by name."""
        return self._pages("/tenants", "tenants", _LARGEST_PAGE)

    async def get_tenant(self, tenant_id: str) -> Json:
        return await self._call("GET", f"/tenants/{quote(tenant_id, safe='')}")

    async def create_tenant(self, tenant: Json) -> Json:
        return await self._call("POST", "/tenants", body=tenant)

    async def patch_tenant(self, tenant_id: str, change: Json) -> Json:
        """Change some of its fields; gives it as it is afterwards."""
        return await self._call("PATCH", f"/tenants/{quote(tenant_id, safe='')}", body=change)

    async def delete_tenant(self, tenant_id: str) -> None:
        """Remove it, once it has no tasks and no cron jobs."""
        await self._call("DELETE", f"/tenants/{quote(tenant_id, safe='')}")

    async def plans(self) -> Json:
        """The `plans` of the installation, by name, with their quotas."""
        return await self._call("GET", "/plans")

    async def nodes(self) -> Json:
        """The `nodes`, living ones first, and what is `due`."""
        return await self._call("GET", "/nodes")

    def usage_of_all(self, days: Mapping[str, str]) -> AsyncIterator[Json]:
        """What each tenant used on each day; `from` and `to` are days, both included."""
        return self._pages("/usage/tenants", "usage", _LARGEST_PAGE | dict(days))
