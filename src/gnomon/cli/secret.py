"""The secret that webhooks are signed with, where nobody set one: made once, kept with the data."""

import base64
import contextlib
import os
from pathlib import Path

import msgspec

from gnomon.cli.output import CommandFailed
from gnomon.settings import Settings

SECRET_FILE = "webhook-secret"  # noqa: S105 - the name of the file
SECRET_BYTES = 32


def with_secret(settings: Settings) -> Settings:
    """The settings with a secret that can be used."""
    if settings.webhook_secret is None:
        file = ensure_secret(Path(settings.data_dir))
        settings = msgspec.structs.replace(settings, webhook_secret=file.read_text().strip())
    assert settings.webhook_secret is not None
    key_of(settings.webhook_secret)
    return settings


def key_of(secret: str) -> bytes:
    """The bytes of a secret."""
    from gnomon.client import signature

    try:
        return signature.key_of(secret)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


def ensure_secret(data_dir: Path) -> Path:
    """The file with the secret; it is made where there is none."""
    import secrets

    from gnomon.client.signature import PREFIX

    file = data_dir / SECRET_FILE
    fresh = PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    # Written aside and linked into place, so that nobody ever reads half of it, and of two
    # processes that start together the second uses what the first made.
    partial = data_dir / f"{SECRET_FILE}.{os.getpid()}"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o600), "w") as new:
                new.write(f"{fresh}\n")
            with contextlib.suppress(FileExistsError):
                os.link(partial, file)
            partial.unlink()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be made: {error.strerror}") from error
    return file
