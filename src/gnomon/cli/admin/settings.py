"""`gnomon settings`: every setting as it is in force here, and where its value comes from."""

import re
from typing import Any

import msgspec
import typer

from gnomon.cli.shared import output
from gnomon.cli.shared.options import AsJson, sourced_settings_of
from gnomon.model.targets.target_secrets import MASK
from gnomon.settings import SECRETS, SECTIONS, variable_of

# A password with one of @ / ? # in it, as it is and not escaped, makes it something else.
_URL = re.compile(r"(\w+://)(?:([^:@/?#]*)(:[^@/?#]*)?@)?([^@?#]*(?:\?[^@#]*)?)")


def settings(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show every setting, its value here and where that comes from. Secrets are masked.

    \b
    gnomon settings
    gnomon --settings /etc/gnomon.toml settings --json
    """
    shown = shown_settings(ctx)
    if as_json:
        output.document(shown)
        return
    for section, named in shown.items():
        rows = [(name, _text(row["value"]), row["from"]) for name, row in named.items()]
        output.table([f"[{section}]", "value", "from"], rows)
        output.echo()


def shown_settings(ctx: typer.Context) -> dict[str, dict[str, dict[str, Any]]]:
    """Every setting by its section, with where its value comes from; secrets are masked."""
    chosen, sources = sourced_settings_of(ctx)
    values = msgspec.to_builtins(chosen)
    return {
        section: {
            name: {
                "value": _masked(section, name, value),
                "from": sources.get((section, name), "default"),
                "variable": variable_of(section, name),
            }
            for name, value in values[section].items()
        }
        for section in SECTIONS
    }


def _masked(section: str, name: str, value: Any) -> Any:
    if value is None or (section, name) not in SECRETS:
        return value
    return _without_password(value) if name.endswith("url") else MASK


def _without_password(url: str) -> str:
    """Where the database is, less what opens it. Nothing of a URL that is not understood."""
    found = _URL.fullmatch(url)
    if found is None or "password" in url.lower():
        return MASK
    scheme, user, password, rest = found.groups()
    opened = "" if user is None else f"{user}{f':{MASK}' if password else ''}@"
    return f"{scheme}{opened}{rest}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else output.compact(value)
