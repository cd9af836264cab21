"""`gnomon secrets`: the secrets that webhooks are signed with."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from gnomon.access.webhook_secret import Scheme
from gnomon.cli.admin.first_keys import works_on_database
from gnomon.cli.admin.local_secrets import SecretCalls, on_database
from gnomon.cli.shared import database, output, remote, secret_files, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import second
from gnomon.cli.shared.secret_files import NewSecretFile, Out
from gnomon.cli.shared.short_ids import id_among
from gnomon.cli.shared.tables import Column, Fit

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

LONGEST_OVERLAP = 30 * 86400.0
_T = TypeVar("_T")
_COLUMNS = (
    Column("secret", Fit.ID),
    Column("scheme", Fit.WHOLE),
    Column("host"),
    Column("created", Fit.WHOLE, rank=2),
    Column("ends", Fit.WHOLE),
    Column("revoked", Fit.WHOLE, rank=1),
    Column("public key", Fit.WHOLE, rank=3),  # `secrets show` prints it
)

SecretId = Annotated[str, typer.Argument(metavar="ID", help="The secret's id, as `list` shows it.")]
SecretFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Take this v1 secret (whsec_…), and make none; - reads stdin."
    ),
]


@app.callback()
def secrets() -> None:
    """Create, list, rotate and revoke webhook secrets: those of your key's tenant.

    Where authentication is off, they are those of the tenant `default`, and this works on the
    database: the API would show them to every user of its machine.
    """


@app.command()
def create(
    ctx: typer.Context,
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
    api: ApiUrl = None,
) -> None:
    """Create a webhook secret. It signs beside those that exist.

    \b
    gnomon secrets create --host hooks.example.com
    gnomon secrets create --scheme v1a
    gnomon secrets create --secret-file /run/secrets/webhook
    """
    if scheme is Scheme.V1A and secret_file is not None:
        raise typer.BadParameter("--secret-file is for v1: private keys of v1a never leave")
    new = {"scheme": scheme, "overlap_seconds": _overlap(overlap)} | values.given(
        host=None if host is None else _host(host), secret=_value(secret_file)
    )
    with NewSecretFile(out) as file:
        made = _ask(ctx, api, lambda calls: calls.create_webhook_secret(new))
        _hand_over(made, file, as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the webhook secrets, newest first, without their values.

    \b
    gnomon secrets list
    """
    found = _ask(ctx, api, lambda calls: calls.list_webhook_secrets())
    if as_json:
        output.document(found)
        return
    output.table(_COLUMNS, [_row(secret) for secret in found["webhook_secrets"]])


@app.command()
def show(
    ctx: typer.Context,
    secret_id: SecretId,
    out: Out = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Print the value of a v1 secret, or the public key of a v1a one.

    \b
    gnomon secrets show 019a2b3c-0000-7000-8000-000000000000
    """

    async def read(calls: SecretCalls) -> dict[str, Any]:
        return await calls.show_webhook_secret(await _id(calls, secret_id))

    found = _ask(ctx, api, read)
    if found["secret"] is None and (found["public_key"] is None or found["revoked_at"]):
        raise output.CommandFailed(
            f"webhook secret {found['secret_id']} has ended; its value is gone"
        )
    with NewSecretFile(out) as file:
        _hand_over(found, file, as_json)


@app.command()
def rotate(
    ctx: typer.Context,
    secret_id: SecretId,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old one signs, too; at most 30d.")
    ] = "24h",
    secret_file: SecretFile = None,
    out: Out = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create a secret that takes the place of this one. Both sign during the overlap.

    \b
    gnomon secrets rotate 019a2b3c-0000-7000-8000-000000000000 --overlap 48h
    """
    change = {"overlap_seconds": _overlap(overlap)} | values.given(secret=_value(secret_file))

    async def rotated(calls: SecretCalls) -> dict[str, Any]:
        return await calls.rotate_webhook_secret(await _id(calls, secret_id), **change)

    with NewSecretFile(out) as file:
        made = _ask(ctx, api, rotated)
        _hand_over(made, file, as_json)


@app.command()
def revoke(
    ctx: typer.Context, secret_id: SecretId, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Revoke a webhook secret. Within a second no node signs with it.

    \b
    gnomon secrets revoke 019a2b3c-0000-7000-8000-000000000000
    """

    async def revoked(calls: SecretCalls) -> str:
        old = await _id(calls, secret_id)
        await calls.revoke_webhook_secret(old)
        return old

    old = _ask(ctx, api, revoked)
    if as_json:
        output.document({"revoked": [old]})
    else:
        output.echo(f"revoked {old}")


def _ask(
    ctx: typer.Context, api: str | None, use: Callable[[SecretCalls], Coroutine[Any, Any, _T]]
) -> _T:
    """Over HTTP with a key; without one, on the database, where authentication is off."""
    settings = settings_of(ctx)
    if works_on_database(ctx, settings):
        return database.with_database(settings, lambda opened: on_database(opened, use))
    return remote.call(remote.api_url(settings, api), use)


async def _id(calls: SecretCalls, given: str) -> str:
    listed = (await calls.list_webhook_secrets())["webhook_secrets"]
    return await id_among(given, "webhook secret", listed, "secret_id")


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


def _value(file: str | None) -> str | None:
    """The v1 secret of a file, where one was named."""
    from gnomon.access.webhook_secret import secret_bytes

    if file is None:
        return None
    given = secret_files.read(file, "--secret-file")
    try:
        secret_bytes(given)
    except ValueError as error:
        raise typer.BadParameter(f"--secret-file: {error}") from None
    return given


def _hand_over(found: dict[str, Any], file: NewSecretFile, as_json: bool) -> None:
    secret = found.pop("secret")
    shown = secret or found["public_key"] or ""
    written = file.write(shown)
    if as_json:
        output.document(found | ({"file": written} if written else {"secret": secret}))
        return
    if written is None:
        output.echo(shown)
    what = "the secret" if secret else "the public key"
    where = "all hosts" if found["host"] is None else found["host"]
    told = f"; it is in {written}" if written else ""
    output.note(f"{what} {found['secret_id']} of {found['tenant_id']}, for calls to {where}{told}")


def _row(secret: dict[str, Any]) -> tuple[str, ...]:
    return (
        secret["secret_id"],
        secret["scheme"],
        secret["host"] or "all",
        *(second(secret[at]) for at in ("created_at", "expires_at", "revoked_at")),
        secret["public_key"] or "",
    )
