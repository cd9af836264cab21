"""`gnomon secrets`: what webhooks are signed with, made and ended on the database itself."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from gnomon.access.webhook_secret import Scheme
from gnomon.cli.admin.keys import TenantOption
from gnomon.cli.shared import database, output, secret_files, values
from gnomon.cli.shared.options import AsJson, settings_of
from gnomon.cli.shared.output import moment
from gnomon.cli.shared.secret_files import NewSecretFile, Out
from gnomon.model.task import DEFAULT_TENANT
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.access.webhook_secret import WebhookSecret
    from gnomon.store.ports.secrets import ShownSecret
    from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

LONGEST_OVERLAP = 30 * 86400.0
_T = TypeVar("_T")

SecretId = Annotated[str, typer.Argument(metavar="ID", help="The secret's id, as `list` shows it.")]
SecretFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Take this v1 secret (whsec_…), and make none; - reads stdin."
    ),
]


@app.callback()
def secrets() -> None:
    """Make, list, rotate and revoke webhook secrets. Works on the database, as `gnomon keys`."""


@app.command()
def create(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Sign calls to this host only.")
    ] = None,
    scheme: Annotated[
        Scheme, typer.Option(help="v1: HMAC-SHA256. v1a: Ed25519, with a public key.")
    ] = Scheme.V1,
    secret_file: SecretFile = None,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="With --host: how long the tenant's secrets sign beside it."
        ),
    ] = "24h",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Make a webhook secret. It signs beside those that there are.

    \b
    gnomon secrets create --tenant acme --host hooks.example.com
    gnomon secrets create --tenant acme --scheme v1a
    gnomon secrets create --secret-file /run/secrets/webhook
    """
    from gnomon.clock import SystemClock, new_id
    from gnomon.store.ports.secrets import NewSecret

    known_host = None if host is None else _host(host)
    secret, public_key = _value(scheme, secret_file)
    new = NewSecret(
        id=new_id(SystemClock().now()),
        tenant_id=tenant,
        host=known_host,
        scheme=scheme,
        secret=secret,
        public_key=public_key,
        shared_seconds=None if known_host is None else _overlap(overlap),
    )
    with NewSecretFile(out) as file:
        made = _with_secrets(settings_of(ctx), lambda store: store.create(new))
        _hand_over(made, file, as_json)


@app.command("list")
def list_(
    ctx: typer.Context, tenant: TenantOption = DEFAULT_TENANT, as_json: AsJson = False
) -> None:
    """List the webhook secrets of a tenant, newest first, without their values.

    \b
    gnomon secrets list --tenant acme
    """
    found = _with_secrets(settings_of(ctx), lambda store: store.list(tenant))
    if as_json:
        output.document({"webhook_secrets": [_document(secret) for secret in found]})
        return
    headings = ["secret", "scheme", "host", "created", "ends", "revoked", "public key"]
    output.table(headings, [_row(secret) for secret in found])


@app.command()
def show(
    ctx: typer.Context,
    secret_id: SecretId,
    tenant: TenantOption = DEFAULT_TENANT,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Print the value of a v1 secret, or the public key of a v1a one.

    \b
    gnomon secrets show 019a2b3c-0000-7000-8000-000000000000 --tenant acme
    """
    wanted = _id(secret_id)
    found = _with_secrets(settings_of(ctx), lambda store: store.show(tenant, wanted))
    if found.value is None and (found.known.public_key is None or found.known.revoked_at):
        raise output.CommandFailed(f"webhook secret {wanted} has ended; its value is gone")
    with NewSecretFile(out) as file:
        _hand_over(found, file, as_json)


@app.command()
def rotate(
    ctx: typer.Context,
    secret_id: SecretId,
    tenant: TenantOption = DEFAULT_TENANT,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old one signs, too; at most 30d.")
    ] = "24h",
    secret_file: SecretFile = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Make a secret that takes the place of this one. Both sign during the overlap.

    \b
    gnomon secrets rotate 019a2b3c-0000-7000-8000-000000000000 --tenant acme --overlap 48h
    """
    from gnomon.clock import SystemClock, new_id
    from gnomon.store.ports.secrets import ReplacingSecret

    old, seconds = _id(secret_id), _overlap(overlap)

    async def replaced(store: "PostgresSecrets") -> "ShownSecret":
        secret, public_key = _value((await store.get(tenant, old)).scheme, secret_file)
        replacing = ReplacingSecret(
            id=new_id(SystemClock().now()), secret=secret, public_key=public_key
        )
        return await store.rotate(tenant, old, replacing, seconds)

    with NewSecretFile(out) as file:
        _hand_over(_with_secrets(settings_of(ctx), replaced), file, as_json)


@app.command()
def revoke(ctx: typer.Context, secret_id: SecretId, tenant: TenantOption = DEFAULT_TENANT) -> None:
    """End a webhook secret. Within a second no node signs with it.

    \b
    gnomon secrets revoke 019a2b3c-0000-7000-8000-000000000000 --tenant acme
    """
    old = _id(secret_id)
    _with_secrets(settings_of(ctx), lambda store: store.revoke(tenant, old))
    output.echo(f"revoked {old}")


def _with_secrets(settings: Settings, use: Callable[["PostgresSecrets"], Awaitable[_T]]) -> _T:
    from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

    return database.with_database(settings, lambda opened: use(PostgresSecrets(opened)))


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no id; `gnomon secrets list` shows them") from None


def _host(text: str) -> str:
    from gnomon.access.webhook_secret import normal_host

    host = normal_host(text)
    if host is None:
        raise typer.BadParameter(f"--host must be a host name or an address; got {text!r}")
    return host


def _overlap(text: str) -> float:
    seconds = values.duration(text)
    if seconds > LONGEST_OVERLAP:
        raise typer.BadParameter(f"--overlap must be at most 30d; got {text!r}")
    return seconds


def _value(scheme: Scheme, file: str | None) -> tuple[str | None, str | None]:
    """The secret and the public key to be kept; no secret of v1: the database makes one."""
    from gnomon.access.webhook_secret import ED25519_BYTES, key_pair, secret_bytes
    from gnomon.clock import new_secret

    if scheme is Scheme.V1A:
        if file is not None:
            raise typer.BadParameter("--secret-file is for v1: private keys of v1a never leave")
        return key_pair(new_secret(ED25519_BYTES))
    if file is None:
        return None, None
    given = secret_files.read(file, "--secret-file")
    try:
        secret_bytes(given)
    except ValueError as error:
        raise typer.BadParameter(f"--secret-file: {error}") from None
    return given, None


def _hand_over(secret: "ShownSecret", file: NewSecretFile, as_json: bool) -> None:
    known = secret.known
    written = file.write(secret.value or known.public_key or "")
    if as_json:
        output.document(
            _document(known) | ({"file": written} if written else {"secret": secret.value})
        )
        return
    if written is None:
        output.echo(secret.value or known.public_key or "")
    what = "the secret" if secret.value else "the public key"
    where = "all hosts" if known.host is None else known.host
    told = f"; it is in {written}" if written else ""
    output.note(f"{what} {known.id} of {known.tenant_id}, for calls to {where}{told}")


def _document(secret: "WebhookSecret") -> dict[str, Any]:
    return {
        "secret_id": secret.id,
        "tenant_id": secret.tenant_id,
        "host": secret.host,
        "scheme": secret.scheme,
        "public_key": secret.public_key,
        "created_at": secret.created_at,
        "created_by": secret.created_by,
        "shared_until": secret.shared_until,
        "expires_at": secret.expires_at,
        "revoked_at": secret.revoked_at,
    }


def _row(secret: "WebhookSecret") -> tuple[str, ...]:
    times = (secret.created_at, secret.expires_at, secret.revoked_at)
    return (
        str(secret.id),
        secret.scheme,
        secret.host or "all",
        *(moment(values.rfc3339(at)) if at else "" for at in times),
        secret.public_key or "",
    )
