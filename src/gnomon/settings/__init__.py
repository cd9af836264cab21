"""Every setting of Gnomon, in sections: each a table of `gnomon.toml`, a struct with its checks,
and variables called `GNOMON_<SECTION>_<NAME>`."""

from gnomon.settings.api import OVERHEAD_BYTES, ApiSettings
from gnomon.settings.auth import AuthSettings
from gnomon.settings.database import DatabaseSettings
from gnomon.settings.gateway import GatewaySettings
from gnomon.settings.loading import (
    DEFAULT_FILE,
    Sources,
    load,
    load_with_sources,
    secret_variables,
    unknown_variables,
    variable_of,
)
from gnomon.settings.node import NodeSettings
from gnomon.settings.notify import NotifySettings
from gnomon.settings.output import OutputSettings
from gnomon.settings.pipe import MeetingPlace, PipeSettings
from gnomon.settings.section import SettingsError
from gnomon.settings.settings import SECRETS, SECTIONS, Settings
from gnomon.settings.sharing import SharingSettings
from gnomon.settings.targets import TargetSettings
from gnomon.settings.tracing import TracingSettings

__all__ = [
    "DEFAULT_FILE",
    "OVERHEAD_BYTES",
    "SECRETS",
    "SECTIONS",
    "ApiSettings",
    "AuthSettings",
    "DatabaseSettings",
    "GatewaySettings",
    "MeetingPlace",
    "NodeSettings",
    "NotifySettings",
    "OutputSettings",
    "PipeSettings",
    "Settings",
    "SettingsError",
    "SharingSettings",
    "Sources",
    "TargetSettings",
    "TracingSettings",
    "load",
    "load_with_sources",
    "secret_variables",
    "unknown_variables",
    "variable_of",
]
