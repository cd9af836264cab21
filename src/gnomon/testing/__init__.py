"""Testing handlers: where they are submitted, or through the real engine on a virtual clock.

`inline` and `inline_sync` run a handler at once, `recording` only notes what was submitted, and
`virtual_gnomon` runs everything as in production while days pass in milliseconds. The fixtures are
in `gnomon.testing.pytest_plugin`. Contract suites for new pipes and stores: `contracts`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gnomon.extras import advice

if TYPE_CHECKING:
    from gnomon.testing.databases import fresh_database
    from gnomon.testing.errors import NothingRuns, NotInThisMode
    from gnomon.testing.inline_mode import InlineGnomon, inline, inline_sync, recording
    from gnomon.testing.records import RecordedTask
    from gnomon.testing.virtual import VirtualGnomon, virtual_gnomon

__all__ = [
    "InlineGnomon",
    "NotInThisMode",
    "NothingRuns",
    "RecordedTask",
    "VirtualGnomon",
    "fresh_database",
    "inline",
    "inline_sync",
    "recording",
    "virtual_gnomon",
]

# Imported when first asked for: the plugin is loaded by every run of pytest.
_HOMES = {
    "InlineGnomon": "inline_mode",
    "NotInThisMode": "errors",
    "NothingRuns": "errors",
    "RecordedTask": "records",
    "VirtualGnomon": "virtual",
    "fresh_database": "databases",
    "inline": "inline_mode",
    "inline_sync": "inline_mode",
    "recording": "inline_mode",
    "virtual_gnomon": "virtual",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gnomon.testing' has no attribute {name!r}")
    try:
        return getattr(import_module(f"gnomon.testing.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        told = advice(missing)
        if told is None:
            raise
        # From None: what imports what is of no use to whoever lacks the extra.
        raise ModuleNotFoundError(f"gnomon.testing.{name}: {told}", name=missing.name) from None


def __dir__() -> list[str]:
    return sorted(__all__)
