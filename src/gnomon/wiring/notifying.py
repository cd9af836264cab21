"""The services of a node that tell people of events, and that all is well."""

from gnomon.chores import Service, every
from gnomon.node.maintenance.heartbeat import Heartbeat
from gnomon.node.maintenance.notifier import EVERY_SECONDS, Notifier
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier
from gnomon.wiring.node_inputs import NodeInputs


def notifying(inputs: NodeInputs, lease: Lease) -> list[Service]:
    """Each with its pace."""
    database, clock, settings = inputs.database, inputs.clock, inputs.settings.notify
    store, chores = PostgresNotifier(database), PostgresChores(database, clock)
    notifier = Notifier(
        store,
        PostgresEventLog(database),
        PostgresEventWriter(database),
        chores,
        lease,
        clock,
    )
    services = [every("notify", notifier.run_once, clock, EVERY_SECONDS)]
    if settings.heartbeat_url is not None:
        heartbeat = Heartbeat(store, chores, lease, clock, settings)
        services.append(every("heartbeat", heartbeat.run_once, clock, heartbeat.every_seconds))
    return services
