"""The services of a node that look after all the others, and after the store."""

from datetime import timedelta

from gnomon.chores import Service, TroubleKeeper, Troubles, every
from gnomon.chores.keeping import EVERY_SECONDS as TROUBLE_SECONDS
from gnomon.model.insight.stuck import Stuck
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.node.maintenance.bulk_runner import EVERY_SECONDS as BULK_SECONDS
from gnomon.node.maintenance.bulk_runner import BulkRunner
from gnomon.node.maintenance.dead_letter_alarm import CHORE as ALARM
from gnomon.node.maintenance.dead_letter_alarm import EVERY_SECONDS as ALARM_SECONDS
from gnomon.node.maintenance.dead_letter_alarm import DeadLetterAlarm
from gnomon.node.maintenance.event_watch import CHORE as EVENTS
from gnomon.node.maintenance.event_watch import EVERY_SECONDS as EVENT_SECONDS
from gnomon.node.maintenance.event_watch import EventWatch
from gnomon.node.maintenance.fingerprinter import CHORE as FINGERPRINT
from gnomon.node.maintenance.fingerprinter import EVERY_SECONDS as FINGERPRINT_SECONDS
from gnomon.node.maintenance.fingerprinter import Fingerprinter
from gnomon.node.maintenance.level_judge import CHORE as LEVELS
from gnomon.node.maintenance.level_judge import EVERY_SECONDS as LEVEL_SECONDS
from gnomon.node.maintenance.level_judge import LevelJudge
from gnomon.node.maintenance.notifier import CHORE as NOTIFY
from gnomon.node.maintenance.overview_keeper import CHORE as OVERVIEW
from gnomon.node.maintenance.overview_keeper import EVERY_SECONDS as OVERVIEW_SECONDS
from gnomon.node.maintenance.overview_keeper import OverviewKeeper
from gnomon.node.maintenance.pruner import CHORE as PRUNE
from gnomon.node.maintenance.pruner import EVERY_SECONDS as PRUNE_SECONDS
from gnomon.node.maintenance.pruner import Pruner
from gnomon.node.maintenance.quarantine_alarm import EVERY_SECONDS as QUARANTINE_SECONDS
from gnomon.node.maintenance.quarantine_alarm import QuarantineAlarm
from gnomon.node.maintenance.retention_alarm import RetentionAlarm
from gnomon.node.maintenance.storage_counter import EVERY_SECONDS as COUNT_SECONDS
from gnomon.node.maintenance.storage_counter import StorageCounter
from gnomon.node.maintenance.stuck_watch import CHORE as STUCK
from gnomon.node.maintenance.stuck_watch import EVERY_SECONDS as STUCK_SECONDS
from gnomon.node.maintenance.stuck_watch import Examine, StuckWatch
from gnomon.node.maintenance.submission_counter import EVERY_SECONDS as SUBMITTED_SECONDS
from gnomon.node.maintenance.submission_counter import SubmissionCounter
from gnomon.node.maintenance.usage_recorder import CHORE as USAGE
from gnomon.node.maintenance.usage_recorder import EVERY_SECONDS as USAGE_SECONDS
from gnomon.node.maintenance.usage_recorder import UsageRecorder
from gnomon.node.maintenance.watchdog import CHORE as WATCH
from gnomon.node.maintenance.watchdog import EVERY_SECONDS as WATCH_SECONDS
from gnomon.node.maintenance.watchdog import Watchdog
from gnomon.node.membership.lease import Lease
from gnomon.observe.node_events import RoomSeen
from gnomon.store.activity_writer import CHORE as ACTIVITY
from gnomon.store.activity_writer import EVERY_SECONDS as ACTIVITY_SECONDS
from gnomon.store.crowd_watch import LOOK_SECONDS as CROWD_SECONDS
from gnomon.store.crowd_watch import CrowdWatch
from gnomon.store.ports.work.bulk import BulkKey
from gnomon.store.postgres.bulk.bulk_store import CollectedHints, PostgresBulk
from gnomon.store.postgres.crowding.crowding import CHORE as CROWDING
from gnomon.store.postgres.crowding.crowding import PostgresCrowding
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.dispatch.troubles import PostgresTroubles
from gnomon.store.postgres.events.dead_letter_counts import PostgresDeadLetterCounts
from gnomon.store.postgres.events.event_reader import PostgresWatch
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.events.looks import PostgresLooks
from gnomon.store.postgres.levels.level_store import PostgresLevels
from gnomon.store.postgres.levels.stuck_store import PostgresStuck
from gnomon.store.postgres.overview.overview import PostgresOverview
from gnomon.store.postgres.tasks.dead_letters import PostgresDeadLetters
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.usage.room import PostgresRoom
from gnomon.store.postgres.usage.storage import PostgresStorage
from gnomon.store.postgres.usage.uncounted import PostgresUncounted
from gnomon.store.room_watch import LOOK_SECONDS as ROOM_SECONDS
from gnomon.store.room_watch import RoomWatch
from gnomon.store.tenant_cache import LOOK_SECONDS
from gnomon.usecases.tasks.bulk_operations import run_chunk
from gnomon.usecases.tasks.stuck_tasks import examine, free
from gnomon.wiring.node_inputs import NodeInputs

MOST_NODES = 1_000  # whose slots are looked at
# Chores that some node holds at any time, whatever there is to do. Not the one that tells of them,
# and not those that are held only while there is something to do.
_ALWAYS_HELD = (PRUNE, WATCH, ALARM, FINGERPRINT, LEVELS, STUCK, EVENTS, NOTIFY)


def maintenance(inputs: NodeInputs, lease: Lease, troubles: Troubles) -> list[Service]:
    """Each with its pace."""
    database, settings, clock = inputs.database, inputs.settings, inputs.clock
    directory, emit = inputs.directory, inputs.emit
    chores = PostgresChores(database, clock)
    writer = PostgresEventWriter(database)
    alarm = RetentionAlarm(writer, emit)
    pruner = Pruner(chores, lease, settings.database, clock, troubles, alarm)
    storage = PostgresStorage(database, clock)
    counter = StorageCounter(storage, chores, lease, directory, clock, troubles)
    submitted = SubmissionCounter(
        PostgresUncounted(database), directory.quotas, inputs.activity.tally
    )
    watch = PostgresWatch(database, settings.node.timeout_grace_seconds)
    watchdog = Watchdog(watch, chores, lease, clock, emit, troubles)
    levels = PostgresLevels(database, settings.node.timeout_grace_seconds)
    judge = LevelJudge(levels, chores, lease, clock)
    room = RoomWatch(
        PostgresRoom(database, settings.database.data_dir),
        settings.database,
        clock,
        lease.incarnation,
        lambda found: emit(RoomSeen(found.free, found.disk)),
    )
    crowding = CrowdWatch(
        PostgresCrowding(database), settings.sharing, directory, clock, lease.incarnation
    )
    looked = PostgresOverview(database, _ALWAYS_HELD)
    overview = OverviewKeeper(looked, chores, lease, emit, troubles)
    fingerprinter = Fingerprinter(PostgresDeadLetters(database), chores, lease, clock)
    kept = PostgresTroubles(database, str(lease.incarnation), inputs.name)
    keeper = TroubleKeeper(troubles, kept, clock)
    return [
        every("directory", directory.load, clock, LOOK_SECONDS),
        every("prune", pruner.run_once, clock, PRUNE_SECONDS),
        every("count-storage", counter.run_once, clock, COUNT_SECONDS),
        every("count-submissions", submitted.run_once, clock, SUBMITTED_SECONDS),
        every("bulk", _bulk(inputs, lease, troubles).run_once, clock, BULK_SECONDS),
        every("fingerprint", fingerprinter.run_once, clock, FINGERPRINT_SECONDS),
        every("room", room.run_once, clock, ROOM_SECONDS),
        every(CROWDING, crowding.run_once, clock, CROWD_SECONDS, yields=True),
        every(ACTIVITY, inputs.activity.run_once, clock, ACTIVITY_SECONDS),
        every("watch", watchdog.run_once, clock, WATCH_SECONDS),
        every(LEVELS, judge.run_once, clock, LEVEL_SECONDS),
        every(STUCK, _stuck(inputs, lease, troubles).run_once, clock, STUCK_SECONDS),
        every(OVERVIEW, overview.run_once, clock, OVERVIEW_SECONDS),
        *_events(inputs, lease, chores),
        every("troubles", keeper.run_once, clock, TROUBLE_SECONDS),
    ]


def _events(inputs: NodeInputs, lease: Lease, chores: PostgresChores) -> list[Service]:
    """Those that notice what people care about."""
    database, clock = inputs.database, inputs.clock
    writer, looks = PostgresEventWriter(database), PostgresLooks(database, clock)
    alarm = DeadLetterAlarm(PostgresDeadLetterCounts(database), writer, chores, lease, clock)
    events = EventWatch(looks, writer, chores, lease, inputs.directory.quotas, clock)
    usage = UsageRecorder(looks, writer, chores, lease, clock)
    quarantine = QuarantineAlarm(inputs.killers, writer, clock)
    return [
        every("alarm", alarm.run_once, clock, ALARM_SECONDS),
        every(EVENTS, events.run_once, clock, EVENT_SECONDS),
        every(USAGE, usage.run_once, clock, USAGE_SECONDS),
        every("quarantine", quarantine.run_once, clock, QUARANTINE_SECONDS),
    ]


def _stuck(inputs: NodeInputs, lease: Lease, troubles: Troubles) -> StuckWatch:
    database, directory = inputs.database, inputs.directory
    seconds = inputs.settings.node.stuck_after_seconds
    store = PostgresTasks(
        database, CollectedHints(database), 0.0, directory.quotas, directory.limiters
    )
    reader = PostgresNodeReader(database)

    async def begin() -> Examine:
        nodes = free(await reader.nodes(MOST_NODES))

        async def examined(key: TaskKey) -> tuple[Task | None, Stuck | None]:
            quota = directory.quotas(key.tenant_id).executions_per_minute
            return await examine(store, quota, key, timedelta(seconds=seconds), nodes)

        return examined

    chores = PostgresChores(database, inputs.clock)
    return StuckWatch(PostgresStuck(database), chores, lease, seconds, begin, troubles)


def _bulk(inputs: NodeInputs, lease: Lease, troubles: Troubles) -> BulkRunner:
    database, directory, clock = inputs.database, inputs.directory, inputs.clock
    hints = CollectedHints(database)
    kept = inputs.settings.api.idempotency_seconds
    store = PostgresTasks(database, hints, kept, directory.quotas, directory.limiters)

    async def do_chunk(key: BulkKey, most: int, skip: bool) -> bool:
        more = await run_chunk(
            store, lambda tenant: directory.tenant(tenant).allow, key, most, skip=skip
        )
        await hints.send()
        return more

    chores = PostgresChores(database, clock)
    return BulkRunner(PostgresBulk(database), chores, lease, do_chunk, clock, troubles)
