"""Reads settings from `gnomon.toml` and the environment.

A setting comes from, in rising order: its default, `gnomon.toml`, the environment
(`GNOMON_NODE_SLOTS` sets `node.slots`; `GNOMON_TARGETS_WEBHOOK_SECRET_FILE` reads
`targets.webhook_secret` from a file). `DATABASE_URL` is read without the prefix too, because every
platform sets it so.
"""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from gnomon.settings.former import FORMER, FORMER_VARIABLES, REMOVED
from gnomon.settings.section import SettingsError
from gnomon.settings.settings import SECRETS, SECTIONS, Settings

_IN_JSON = ("plans", "grpc_tls", "queues")
PREFIX = "GNOMON_"
DEFAULT_FILE = "gnomon.toml"

# The file or the variable of each setting that has one.
Sources = dict[tuple[str, str], str]

_SETTING = re.compile(r"(\w+)\.(\w+)")
_EXPECTED = re.compile(r"Expected `(\w+)")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
}
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([^=#]+?)\s*=")
_PLACE = re.compile(r"(.*) - at `\$\.(.*)`", re.DOTALL)


def load(environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """Read the settings. `file` None means `gnomon.toml` where it exists."""
    return load_with_sources(environ, file)[0]


def load_with_sources(
    environ: Mapping[str, str], file: Path | None = None
) -> tuple[Settings, Sources]:
    """The settings, and the file or variable that each one comes from; defaults have none."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    sources: Sources = {}
    if file is not None or Path(DEFAULT_FILE).exists():
        file = file or Path(DEFAULT_FILE)
        for section, given in _from_file(file).items():
            values[section] |= given
            sources |= {(section, name): str(file) for name in given}
    for (section, name), (variable, value) in _from_environ(environ).items():
        values[section][name] = value
        sources[section, name] = variable
    try:
        return msgspec.convert(values, Settings, strict=False), sources
    except msgspec.ValidationError as error:
        raise SettingsError(_explained(error, sources)) from error


def variable_of(section: str, name: str) -> str:
    """The variable that sets `section.name`."""
    return f"{PREFIX}{section}_{name}".upper()


_OF_HANDLERS = ("database", "handler_url")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """`GNOMON_*` variables that set nothing: usually a typing mistake, never an error."""
    known = {variable for variable, _, _ in _variables()}
    names = (name for name in environ if name.startswith(PREFIX))
    return sorted(name for name in names if name.removesuffix("_FILE") not in known)


def secret_variables() -> list[str]:
    """The variables that set secrets which no handler needs. Not `DATABASE_URL`: it is the
    platform's, and others on it may live from it."""
    names = [variable_of(*secret) for secret in SECRETS if secret != _OF_HANDLERS]
    return [*names, *(f"{name}_FILE" for name in names)]


def _explained(error: msgspec.ValidationError, sources: Sources) -> str:
    """The source of the setting first, then the setting; a check of a section names it by itself.
    Never the value: it may be a secret."""
    if isinstance(error.__cause__, ValueError):
        told = str(error.__cause__)
    else:
        found = _PLACE.fullmatch(str(error))
        told = f"{found[2]} {_in_words(found[1])}" if found else str(error)
    named = _SETTING.match(told)
    source = None if named is None else sources.get((named[1], named[2]))
    return f"{_place(source, named[1], named[2])}: {told}" if named and source else told


def _in_words(mistake: str) -> str:
    found = _EXPECTED.match(mistake)
    wanted = None if found is None else _KINDS.get(found[1])
    return f": {mistake}" if wanted is None else f"must be {wanted}"


def _place(source: str, section: str, name: str) -> str:
    """A variable as it is; a file with the line of the setting, where that can be found."""
    if source.startswith((PREFIX, "DATABASE_URL")):
        return source
    inside = ""
    for number, line in enumerate(_lines(Path(source)), start=1):
        if found := _TABLE.match(line):
            inside = found[1].strip()
        elif found := _KEY.match(line):
            full = f"{inside}.{found[1]}" if inside else found[1]
            if re.sub(r"[\s\"']", "", full) == f"{section}.{name}":
                return f"{source}, line {number}"
    return source


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _variables() -> Iterator[tuple[str, str, msgspec.structs.FieldInfo]]:
    """Every variable, with the section and the setting that it sets."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            yield variable_of(section, field.name), section, field


def _from_file(file: Path) -> dict[str, dict[str, Any]]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}") from error
    _check_names(file, values)
    held = [
        (section, name)
        for section, name in SECRETS
        if name in values.get(section, {}) and _is_secret(name, str(values[section][name]))
    ]
    if held and _open_to_all(file):
        raise SettingsError(
            f"{file} holds a secret ({', '.join(map('.'.join, held))}) and can be read by every "
            f"user of this machine: chmod o-r {file}, or set {variable_of(*held[0])}_FILE instead"
        )
    return values


def _check_names(file: Path, values: Mapping[str, Any]) -> None:
    """Raise SettingsError for what is no section and no setting."""
    former = [f"{name} is now {'.'.join(FORMER[name])}" for name in values if name in FORMER]
    former += [
        f"{_full(*removed)} is gone; {instead}"
        for removed, instead in REMOVED.items()
        if removed[1] in (values.get(removed[0], {}) if removed[0] else values)
    ]
    if former:
        raise SettingsError(f"{file}: {'; '.join(former)}")
    for section, given in values.items():
        if section not in SECTIONS:
            raise SettingsError(f"{file}: unknown setting {section!r}{_hint(section)}")
        if not isinstance(given, dict):
            raise SettingsError(f"{file}: {section} must be a table of settings")
        for name in given:
            if name not in SECTIONS[section].__struct_fields__:
                full = f"{section}.{name}"
                raise SettingsError(f"{file}: unknown setting {full!r}{_hint(full)}")


def _full(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


def _hint(unknown: str) -> str:
    """The nearest section or setting: by its full name, else by its name in whatever section."""
    name = unknown.rpartition(".")[2]
    full = {f"{section}.{field.name}": field.name for _, section, field in _variables()}
    near = (
        [".".join(FORMER[name])]
        if name in FORMER
        else difflib.get_close_matches(unknown, [*full, *SECTIONS], n=1)
    )
    if not near and (close := difflib.get_close_matches(name, full.values(), n=1)):
        near = [each for each in full if full[each] == close[0]][:1]
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_secret(name: str, value: str) -> bool:
    if not name.endswith("url"):
        return True
    try:
        parts = urlsplit(value)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return True


def _open_to_all(file: Path) -> bool:
    """Whether anybody can read it, as far as modes tell: itself, and every folder on the way."""
    if os.name == "nt":
        return False
    way = file.resolve()
    anybody = way.stat().st_mode & stat.S_IROTH != 0
    return anybody and all(folder.stat().st_mode & stat.S_IXOTH for folder in way.parents)


def _from_environ(environ: Mapping[str, str]) -> dict[tuple[str, str], tuple[str, object]]:
    """Settings with the variable that sets each of them, and its value."""
    _check_former(environ)
    values: dict[tuple[str, str], tuple[str, object]] = {}
    for variable, section, field in _variables():
        names = [variable]
        if (section, field.name) == ("database", "url"):
            names.append("DATABASE_URL")
        for name in names:
            source, text = _text(environ, name)
            if text:  # an empty variable is how compose files and unit files leave one unset
                values[section, field.name] = source, _parsed(field, name, text)
                break
    return values


def _check_former(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for variables that did set something under a former name."""
    known = {variable for variable, _, _ in _variables()}
    former = [
        f"{old}{suffix} is now {variable_of(*new)}{suffix}"
        for old, new in ((PREFIX + name.upper(), new) for name, new in FORMER.items())
        for suffix in ("", "_FILE")
        if old not in known and environ.get(old + suffix)
    ]
    former += [f"{old} is now {new}" for old, new in FORMER_VARIABLES.items() if environ.get(old)]
    former += [
        f"{variable} is gone; {instead}"
        for variable, instead in (
            (PREFIX + _full(*removed).replace(".", "_").upper(), instead)
            for removed, instead in REMOVED.items()
        )
        if environ.get(variable)
    ]
    if former:
        raise SettingsError(f"in the environment: {'; '.join(former)}")


def _parsed(field: msgspec.structs.FieldInfo, variable: str, text: str) -> object:
    """Mappings are name=value pairs and lists are values, separated by commas; what has tables in
    it is JSON."""
    if field.name in _IN_JSON:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{variable} must be JSON: {error}") from error
    if field.name == "lane_weights":
        return _mapping(variable, text)
    if isinstance(field.default, tuple):
        return [value.strip() for value in text.split(",") if value.strip()]
    return text


def _text(environ: Mapping[str, str], variable: str) -> tuple[str, str | None]:
    """The variable or its `_FILE`, and what it says."""
    path = environ.get(f"{variable}_FILE")
    if environ.get(variable) or not path:
        return variable, environ.get(variable)
    try:
        return f"{variable}_FILE", Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{variable}_FILE names {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{variable}_FILE names {path}, which is not text") from error


def _mapping(variable: str, text: str) -> dict[str, str]:
    """`name=value` pairs, separated by commas."""
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    if not all("=" in pair for pair in pairs):
        raise SettingsError(f"{variable} must be name=value, name=value, …; got {text!r}")
    split = (pair.split("=", 1) for pair in pairs)
    return {name.strip(): value.strip() for name, value in split}
