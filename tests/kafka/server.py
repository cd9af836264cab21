"""One Kafka process, broker and controller, with listeners of all four kinds."""

import subprocess
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.brokers import Server, free_port
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

    def __init__(self, folder: Path) -> None:
        self.ports = {name: free_port() for name in (*LISTENERS, "CONTROLLER")}
        self.plain = f"{ADDRESS}:{self.ports['PLAINTEXT']}"
        self.authority = Authority(folder, "authority")
        self.authority.sign(folder, ADDRESS)
        (folder / "server.pem").write_bytes(
            (folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes()
        )
        properties = folder / "server.properties"
        properties.write_text("".join(f"{line}\n" for line in self._properties(folder)))
        java = (*_JAVA, "-cp", CLASS_PATH.read_text().strip())
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", properties],
            check=True,
            capture_output=True,
            timeout=60,
        )
        super().__init__([*java, "kafka.Kafka", properties], folder)
        self.admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})

    def url(self, listener: str = "PLAINTEXT") -> str:
        scheme = "kafkas" if listener.endswith("SSL") else "kafka"
        user = f"{USER}@" if listener.startswith("SASL") else ""
        return f"{scheme}://{user}{ADDRESS}:{self.ports[listener]}"

    def start(self) -> None:
        super().start()
        eventually_sync(self._answers, timeout=60.0)

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def _properties(self, folder: Path) -> list[str]:
        listeners = [f"{name}://{ADDRESS}:{port}" for name, port in self.ports.items()]
        kinds = [f"{name}:{name}" for name in LISTENERS]
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required user_{USER}="{PASSWORD}";'
        return [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{ADDRESS}:{self.ports['CONTROLLER']}",
            "controller.listener.names=CONTROLLER",
            f"listeners={','.join(listeners)}",
            f"advertised.listeners={','.join(listeners[:-1])}",
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
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={login}",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={login}",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={folder / 'server.pem'}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority.file}",
            "listener.name.ssl.ssl.client.auth=required",
        ]
