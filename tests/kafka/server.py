"""One Kafka process, broker and controller, with listeners of all four kinds."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.brokers import Server, free_ports
from tests.certificates import Authority
from tests.kafka.jars import CLASS_PATH
from tests.waiting import eventually_sync

_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER = "Z25vbW9uLWthZmthLXRlc3Q"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
USER, PASSWORD = "gnomon", "right"
ADDRESS = "127.0.0.1"


class KafkaServer(Server):
    """Its data outlives a kill. Topics are not made by themselves."""

    def __init__(
        self, folder: Path, listeners: Sequence[str] = (), users: Sequence[str] = ()
    ) -> None:
        """`listeners`: besides those of each kind, plain ones that can be advertised elsewhere.
        `users`: besides the one that there always is; they may do what they are allowed to, and
        whoever comes without a password may do all."""
        self._users = tuple(users)
        names = (*LISTENERS, *listeners, "CONTROLLER")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._plain = tuple(listeners)
        self._folder = folder
        self._advertised: dict[str, int] = {}
        self.plain = f"{ADDRESS}:{self.ports['PLAINTEXT']}"
        self.authority = Authority(folder, "authority")
        self.authority.sign(folder, ADDRESS)
        (folder / "server.pem").write_bytes(
            (folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes()
        )
        self._file = folder / "server.properties"
        self._java = (*_JAVA, "-cp", CLASS_PATH.read_text().strip())
        self.format()
        super().__init__([*self._java, "kafka.Kafka", self._file], folder)
        self.admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})

    def advertise(self, ports: Mapping[str, int]) -> None:
        """Have clients of these listeners come by other ports, from the next start on."""
        self._advertised = dict(ports)
        self._file.write_text("".join(f"{line}\n" for line in self._properties(self._folder)))

    def format(self) -> None:
        """Make its data anew, empty."""
        shutil.rmtree(self._folder / "data", ignore_errors=True)
        self.advertise(self._advertised)
        made = subprocess.run(
            [
                *self._java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", self._file,
                "--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr

    def url(self, listener: str = "PLAINTEXT") -> str:
        scheme = "kafkas" if listener.endswith("SSL") else "kafka"
        user = f"{USER}@" if listener.startswith("SASL") else ""
        return f"{scheme}://{user}{ADDRESS}:{self.ports[listener]}"

    def start(self) -> None:
        super().start()
        eventually_sync(self._answers, timeout=60.0)

    def restart_empty(self) -> None:
        """Start it after a kill, without its data."""
        self.format()
        self.start()

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def _properties(self, folder: Path) -> list[str]:
        listeners = [f"{name}://{ADDRESS}:{port}" for name, port in self.ports.items()]
        kinds = [f"{name}:{name}" for name in LISTENERS]
        kinds += [f"{name}:PLAINTEXT" for name in self._plain]
        places = (self.ports | self._advertised).items()
        advertised = [f"{name}://{ADDRESS}:{port}" for name, port in places]
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        known = " ".join(f'user_{user}="{PASSWORD}"' for user in (USER, *self._users))
        login = f"{module} required {known};"
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        guarded = [f"authorizer.class.name={authorizer}", "super.users=User:ANONYMOUS"]
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return [
            *(guarded if self._users else ()),
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{ADDRESS}:{self.ports['CONTROLLER']}",
            "controller.listener.names=CONTROLLER",
            f"listeners={','.join(listeners)}",
            f"advertised.listeners={','.join(advertised[:-1])}",
            f"listener.security.protocol.map={','.join(kinds)},CONTROLLER:PLAINTEXT",
            f"log.dirs={folder / 'data'}",
            "auto.create.topics.enable=false",
            "num.partitions=1",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={login}",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={login}",
            f"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={scram}",
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={folder / 'server.pem'}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority.file}",
            "listener.name.ssl.ssl.client.auth=required",
        ]
