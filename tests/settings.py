"""Settings by the names of their variables: `settings_with(node_slots=4)` has `node.slots` 4."""

from typing import Any

import msgspec

from gnomon.settings import Settings

_DEFAULT = Settings()


def settings_with(base: Settings = _DEFAULT, /, **changes: Any) -> Settings:
    """`base`, with these settings changed."""
    sections: dict[str, dict[str, Any]] = {}
    for flat, value in changes.items():
        section, _, name = flat.partition("_")
        sections.setdefault(section, {})[name] = value
    changed = {
        section: msgspec.structs.replace(getattr(base, section), **values)
        for section, values in sections.items()
    }
    return msgspec.structs.replace(base, **changed)
