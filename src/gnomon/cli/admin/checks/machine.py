"""Checks of this machine: Python, settings, files."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gnomon.cli.admin.checks.check import Check
from gnomon.cli.shared.options import API_VARIABLE, SETTINGS_VARIABLE
from gnomon.file_limit import file_limit, own_files
from gnomon.settings import DEFAULT_FILE, Settings, unknown_variables

OLDEST_PYTHON = (3, 11)

# A receiver of webhooks may run in the same environment; not imported, because `--help` is quicker.
_OF_RECEIVERS = ("GNOMON_WEBHOOK_SECRETS", "GNOMON_WEBHOOK_SECRETS_FILE")


def python_version() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= OLDEST_PYTHON
    return Check("Python", good, version, "use Python 3.11 or newer")


def environment(environ: Mapping[str, str]) -> Check:
    own = {API_VARIABLE, SETTINGS_VARIABLE, *_OF_RECEIVERS}
    unknown = [name for name in unknown_variables(environ) if name not in own]
    detail = f"{', '.join(unknown)} set nothing" if unknown else "every GNOMON_ variable is known"
    return Check("environment", not unknown, detail, "look for a typing mistake, or unset them")


def settings_file(file: Path | None) -> Check:
    found = file or Path(DEFAULT_FILE)
    return Check("settings", True, f"read from {found}" if found.exists() else "no file; defaults")


def data_dir(folder: Path) -> Check:
    # The nearest folder that exists decides whether the rest can be made.
    nearest = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.exists())
    good = nearest.is_dir() and os.access(nearest, os.W_OK)
    detail = f"{folder} {'can' if good else 'cannot'} be written"
    return Check(
        "data directory", good, detail, "give it to this user, or set GNOMON_DATABASE_DATA_DIR"
    )


def open_files(settings: Settings) -> Check:
    allowed, own = file_limit(), own_files(settings.database)
    needed = max(settings.api.connections, settings.node.slots) + own
    if allowed >= needed:
        return Check("open files", True, f"{allowed} allowed")
    detail = (
        f"{allowed} allowed: the API holds {max(allowed - own, 1)} connections, not the "
        f"{settings.api.connections} of api.connections"
        if settings.api.connections > settings.node.slots
        else f"{allowed} allowed: too few for {settings.node.slots} slots"
    )
    remedy = f"raise the hard limit to {needed} (LimitNOFILE in systemd, ulimit -Hn), or lower it"
    return Check("open files", False, detail, remedy)


def embedded_binaries() -> Check:
    from gnomon.store.embedded import EmbeddedError
    from gnomon.store.embedded.binaries import installed

    try:
        return Check("embedded PostgreSQL", True, f"in {installed().root}")
    except EmbeddedError as error:
        return Check("embedded PostgreSQL", False, str(error), "install it, or set DATABASE_URL")
