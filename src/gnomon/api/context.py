"""What every handler works with."""

from typing import Any, TypeAlias
from uuid import UUID

import msgspec
from litestar import Request as LitestarRequest

from gnomon.api.authentication import Authenticator
from gnomon.api.bodies import Bodies
from gnomon.api.connections import Client
from gnomon.api.intake import Intake
from gnomon.api.refusals import Refusals
from gnomon.api.request_limits import RequestLimits
from gnomon.clock import Clock
from gnomon.model.errors import CronJobNotFound, TaskNotFound
from gnomon.model.principal import Principal
from gnomon.observe.metrics import ApiMetrics
from gnomon.settings import Settings
from gnomon.store.cron_port import CronStore
from gnomon.store.directory import Directory
from gnomon.store.event_port import EventStore
from gnomon.store.guards import Guards
from gnomon.store.key_port import KeyStore
from gnomon.store.limit_port import LimiterStore
from gnomon.store.port import TaskStore
from gnomon.store.roster_port import RosterStore
from gnomon.store.secret_port import SecretStore
from gnomon.store.task_type_port import TaskTypeStore
from gnomon.store.usage_port import UsageStore

Request: TypeAlias = LitestarRequest[Any, Any, Any]

_UUID_LENGTH = 36


class Context(msgspec.Struct, frozen=True):
    """The parts of one API process."""

    settings: Settings
    clock: Clock
    store: TaskStore
    intake: Intake
    cron: CronStore
    events: EventStore
    roster: RosterStore
    metrics: ApiMetrics
    directory: Directory
    guards: Guards
    keys: KeyStore
    authenticator: Authenticator | None  # None: whoever can connect is welcome
    task_types: TaskTypeStore
    usage: UsageStore
    limiters: LimiterStore
    secrets: SecretStore
    bodies: Bodies
    refusals: Refusals
    limits: RequestLimits
    under_way: set[Client]  # those with a request under way


def context_of(request: Request) -> Context:
    context: Context = request.scope["litestar_app"].state["context"]
    return context


def header_of(request: Request, name: bytes) -> str | None:
    """A header by its name in lower case, without building a mapping of all of them."""
    for key, value in request.scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


def principal_of(request: Request) -> Principal:
    """Who asks, as the door found out."""
    principal: Principal = request.scope["auth"]
    return principal


def tenant_of(request: Request) -> str:
    """Whose request it is."""
    return principal_of(request).tenant_id


def task_id_of(request: Request) -> UUID:
    """The id in the path; one that cannot be an id is one that nobody has."""
    text: str = request.path_params["task_id"]
    try:
        if len(text) == _UUID_LENGTH:
            return UUID(text)
    except ValueError:
        pass
    raise TaskNotFound(text)


def cron_ref_of(request: Request) -> str:
    """The id or name in the path; one that cannot be either is one that no job has."""
    ref: str = request.path_params["ref"]
    if not ref.isprintable():
        raise CronJobNotFound(repr(ref))
    return ref
