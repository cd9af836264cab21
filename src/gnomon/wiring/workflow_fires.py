"""Puts together what starts workflows for cron jobs, in a node."""

from typing import NamedTuple

from gnomon.clock import Clock
from gnomon.settings import Settings
from gnomon.store.guards import Guards
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import OnInserted, PostgresTasks
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows.recurring import WorkflowFires


class CalledStore(NamedTuple):
    """The database, as the callers of targets use it."""

    database: Database
    directory: TenantCache
    on_inserted: OnInserted


def workflow_fires(
    store: CalledStore, settings: Settings, guards: Guards, clock: Clock
) -> WorkflowFires:
    directory, hints = store.directory, CollectedHints(store.database)
    tasks = PostgresTasks(
        store.database,
        hints,
        settings.api.idempotency_seconds,
        directory.quotas,
        directory.limiters,
        store.on_inserted,
    )
    api = settings.api
    rules = TenantRules(
        clock,
        directory,
        guards,
        api.max_payload_bytes,
        api.max_run_nodes,
        settings.targets.queues or None,
    )
    return WorkflowFires(tasks, PostgresWorkflows(store.database), rules, hints.send)
