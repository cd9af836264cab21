"""All settings of one process, by section. Durations are in seconds."""

import msgspec

from gnomon.settings.api import ApiSettings
from gnomon.settings.auth import AuthSettings
from gnomon.settings.database import DatabaseSettings
from gnomon.settings.gateway import GatewaySettings
from gnomon.settings.node import NodeSettings
from gnomon.settings.notify import NotifySettings
from gnomon.settings.output import OutputSettings
from gnomon.settings.pipe import PipeSettings
from gnomon.settings.section import Section
from gnomon.settings.sharing import SharingSettings
from gnomon.settings.targets import TargetSettings
from gnomon.settings.tracing import TracingSettings


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    database: DatabaseSettings = DatabaseSettings()
    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    node: NodeSettings = NodeSettings()
    gateway: GatewaySettings = GatewaySettings()
    pipe: PipeSettings = PipeSettings()
    sharing: SharingSettings = SharingSettings()
    targets: TargetSettings = TargetSettings()
    output: OutputSettings = OutputSettings()
    tracing: TracingSettings = TracingSettings()
    notify: NotifySettings = NotifySettings()


SECTIONS: dict[str, type[Section]] = {
    each.name: each.type for each in msgspec.structs.fields(Settings)
}
# What nobody else on the machine may read.
SECRETS = (
    ("database", "url"),
    ("database", "direct_url"),
    ("database", "handler_url"),
    ("api", "key"),
    ("pipe", "url"),
    ("targets", "webhook_secret"),
    ("notify", "smtp_password"),
    ("notify", "heartbeat_url"),
)
