"""Reads webhook calls: only genuine ones, with the payload as the type that the receiver takes."""

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import unquote
from uuid import UUID

import msgspec

from gnomon.access.webhook_secret import PUBLIC_PREFIX
from gnomon.client.signature import TOLERANCE_SECONDS, check_secret, verify
from gnomon.model.duration import Duration, seconds_of
from gnomon.receive.errors import BadPayload, NotGenuine

SECRETS_VARIABLE = "GNOMON_WEBHOOK_SECRETS"

T = TypeVar("T")

_NUMBER = re.compile("[0-9]{1,18}")  # as PostgreSQL can hold


class Received(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One genuine call: an execution of a task."""

    task_id: UUID  # the same for every execution
    task_type: str
    tenant: str
    attempt: int  # the first is 1
    fence: int  # grows with every execution
    scheduled_for: datetime
    idempotency_key: str  # the submitter's, else the task's id
    correlation_id: str  # as it was submitted, else the task's id
    payload: T


class Webhooks:
    """The calls that one tenant's tasks make to this program, and the secrets that sign them.

    `secrets` are `whsec_` secrets and `whpk_` public keys, several while they are changed; without
    them, the words of GNOMON_WEBHOOK_SECRETS or of the file that GNOMON_WEBHOOK_SECRETS_FILE names.
    With `tenant` the calls of others are refused, also where they know a secret.
    """

    def __init__(
        self,
        secrets: Iterable[str] | None = None,
        *,
        tenant: str | None = None,
        tolerance: Duration = TOLERANCE_SECONDS,
    ) -> None:
        if isinstance(secrets, str):  # its characters would be taken for secrets
            raise TypeError("secrets are a list: Webhooks([secret])")
        self._secrets = tuple(_from_environment() if secrets is None else secrets)
        if not self._secrets:
            raise ValueError(
                f"webhooks need a secret to be checked with: pass secrets=, or set "
                f"{SECRETS_VARIABLE} (`gnomon secrets show` prints it)"
            )
        for secret in self._secrets:
            check_secret(secret)
            _check_library(secret)
        self._tenant = tenant
        self._tolerance = seconds_of(tolerance)

    def read(self, headers: Mapping[str, str], body: bytes, payload: Any = Any) -> Received[Any]:
        """The call with these headers and this body, as the bytes came; its payload is converted to
        the type `payload`. Raises NotGenuine and BadPayload."""
        headers = {name.lower(): value for name, value in headers.items()}
        now = datetime.now(UTC)
        if not verify(self._secrets, headers, body, now, tolerance_seconds=self._tolerance):
            raise NotGenuine("the signature does not fit the call, or the call is not of now")
        tenant = unquote(headers.get("gnomon-tenant", ""))
        if self._tenant is not None and tenant != self._tenant:
            raise NotGenuine(f"this receiver takes calls of the tenant {self._tenant!r} only")
        try:
            return Received(
                task_id=UUID(headers["webhook-id"]),
                task_type=unquote(headers.get("gnomon-task-type", "")),
                tenant=tenant,
                attempt=_number(headers["gnomon-attempt"]),
                fence=_number(headers["gnomon-fence"]),
                scheduled_for=datetime.fromisoformat(headers["gnomon-scheduled-for"]),
                idempotency_key=headers["idempotency-key"],
                correlation_id=headers.get("x-request-id") or headers["webhook-id"],
                payload=_converted(body, payload),
            )
        except KeyError as missing:
            raise BadPayload(
                f"the call has no header {missing.args[0]}: a proxy dropped it"
            ) from None
        except ValueError as error:
            raise BadPayload(f"a header of the call cannot be read: {error}") from error


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no number")
    return int(text)


def _converted(body: bytes, kind: Any) -> Any:
    """Pydantic's models convert by themselves. No body (GET, DELETE) is no payload."""
    text = body or b"null"
    try:
        if hasattr(kind, "model_validate_json"):
            return kind.model_validate_json(text)
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadPayload(f"the payload cannot be used: {error}") from error


def _check_library(secret: str) -> None:
    if secret.startswith(PUBLIC_PREFIX) and find_spec("cryptography") is None:
        raise ModuleNotFoundError(
            f"signatures that {PUBLIC_PREFIX} keys check need a library: pip install cryptography",
            name="cryptography",
        )


def _from_environment() -> list[str]:
    if path := os.environ.get(f"{SECRETS_VARIABLE}_FILE"):
        return Path(path).read_text(encoding="utf-8").split()
    return os.environ.get(SECRETS_VARIABLE, "").split()
