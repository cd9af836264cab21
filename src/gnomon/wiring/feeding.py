"""The services of a node that publish outcomes to the brokers of feeds."""

from gnomon.chores import Service, every
from gnomon.node.maintenance.feeds.feed_chore import FeedChore
from gnomon.node.maintenance.feeds.feed_keeper import EVERY_SECONDS as KEEP_SECONDS
from gnomon.node.maintenance.feeds.feed_keeper import FeedKeeper
from gnomon.node.maintenance.feeds.feed_publisher import EVERY_SECONDS, FeedPublisher
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes
from gnomon.wiring.node_inputs import NodeInputs


def feeding(inputs: NodeInputs, lease: Lease) -> list[Service]:
    """Two for each connection, so that a broker that is away holds no other up, nor a feed that
    fails; and one that bounds
    what waits, whether anybody publishes or not."""
    clock, settings = inputs.clock, inputs.settings.targets
    notes, chores = PostgresFeedNotes(inputs.database), PostgresChores(inputs.database, clock)
    keeper = FeedKeeper(notes, chores, lease, settings.max_feed_backlog)
    services = [every("feeds", keeper.run_once, clock, KEEP_SECONDS)]
    if inputs.publisher is not None:
        for name in settings.queues:
            chore = FeedChore(name, chores, lease, clock)
            publisher = FeedPublisher(chore, notes, inputs.publisher, clock, inputs.emit)
            services += [
                every(chore.name, publisher.run_once, clock, EVERY_SECONDS),
                every(f"{chore.name}:failed", publisher.retry_once, clock, EVERY_SECONDS),
            ]
    return services
