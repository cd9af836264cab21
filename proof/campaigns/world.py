"""The world of a campaign: PostgreSQL, API processes, nodes and an observer, all of them real, and
a proxy between each process and PostgreSQL. What can be broken in it is a method here.
"""

import asyncio
import contextlib
import itertools
import math
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from proof.campaigns import points
from proof.campaigns.audit import Audit
from proof.campaigns.boot import CRASH_FILE, MUTANT
from proof.campaigns.broker import Broker
from proof.campaigns.cluster import Server, ServerEnded, Tmpfs, reserve_port
from proof.campaigns.collect import Recorded, collect
from proof.campaigns.database import prepare, unsettled
from proof.campaigns.foreign import Language, command_of
from proof.campaigns.history import Fault, History, Route
from proof.campaigns.member import Death, Member, address_of, environment, observer_of
from proof.campaigns.proxy import Proxy
from proof.campaigns.tools import faketime
from proof.campaigns.world_options import Options
from tests.waiting import eventually

HARNESS = "harness"  # the proxy of those who watch and submit
REPLICA = "replica"  # the proxy between the replica and its primary

_BOOT = ("-m", "proof.campaigns.boot")
_FOREIGN = ("-m", "proof.campaigns.foreign")
_STEP = 0.05
_PATIENCE = 60.0
_START_SECONDS = 180.0  # for all processes together, on a machine that has other things to do
_ABSENT = 1.0  # seconds until one that ended by itself is started again
# A small disk is full of the log alone otherwise.
_SMALL_DISK = {"max_wal_size": "48MB", "min_wal_size": "32MB"}


class World:
    """Entered, everything serves. The names of processes are "api-1", "node-1", ..."""

    server: Server
    audit: Audit

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder
        self.options = options or Options()
        self.members: dict[str, Member] = {}
        self.proxies: dict[str, Proxy] = {}
        self.api_urls: list[str] = []
        self.api_ports: list[int] = []
        self.observer_url = ""
        self.faults: list[Fault] = []  # whoever breaks something, adds it
        self.began_at = time.time()
        self.tmpfs: Tmpfs | None = None
        self.replica: Server | None = None
        self.broker: Broker | None = None
        self._epoch = time.time() - time.monotonic()
        self._stack = AsyncExitStack()
        self.routes: list[Route] = []  # of remote workers to their gateways, in their order
        self._led: dict[str, str] = {}  # the last of these
        self.leaving: set[str] = set()  # API processes that no worker is led to
        self._restarts: dict[str, float] = {}  # when to start what has ended (monotonic)
        self._one_at_a_time = asyncio.Lock()  # who stops and starts PostgreSQL

    async def __aenter__(self) -> Self:
        try:
            await self._build()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # Who there is

    @property
    def node_names(self) -> list[str]:
        return [f"node-{number}" for number in range(1, self.options.nodes + 1)]

    @property
    def api_names(self) -> list[str]:
        return [f"api-{number}" for number in range(1, self.options.apis + 1)]

    @property
    def worker_names(self) -> list[str]:
        return [f"worker-{number}" for number in range(1, self.options.workers + 1)]

    @property
    def dsn(self) -> str:
        """PostgreSQL for those who watch and submit: the same address after a failover."""
        return self.server.dsn_at(self.proxies[HARNESS].port)

    @property
    def deaths(self) -> list[Death]:
        return sorted((d for m in self.members.values() for d in m.deaths), key=lambda d: d.at)

    # What can be done to a process

    def alive(self, name: str) -> bool:
        return self.members[name].alive

    def serving(self, name: str) -> bool:
        """Whether it is up, and has been able to start its work."""
        return self.members[name].serving and not self.members[name].paused

    def kill(self, name: str) -> None:
        """`kill -9`. It is down until `start`, or until its downtime is over."""
        self.members[name].kill()
        self._notice(name)

    def start(self, name: str) -> None:
        self._notice(name)
        self._restarts.pop(name, None)
        self.members[name].start()

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self.members[name].pause()

    def go_on(self, name: str) -> None:
        self.members[name].go_on()

    def crash_at(self, name: str, point: str) -> None:
        """Have it kill itself when it next comes to a point of proof.campaigns.points."""
        points.arm(points.crash_file(self.folder, name), point)

    def disarm(self, name: str) -> bool:
        """Whether the point had not been reached. If it was, the process has died of it."""
        return points.disarm(points.crash_file(self.folder, name))

    async def skew(self, name: str, seconds: float) -> None:
        """Kill it, and start it with a clock that is so much ahead. Its monotonic one is right."""
        self.kill(name)
        self.members[name].extra = faketime(seconds)
        self.start(name)
        await self.until_serving(name)

    async def until_serving(self, *names: str, within: float = _PATIENCE) -> None:
        async def all_serve() -> bool:
            return all(self.serving(name) for name in names)

        await eventually(all_serve, within)

    # What can be done to PostgreSQL

    async def restart_postgres(self, immediate: bool, down: float = 0.0) -> None:
        """Stop it, fast or as in a crash, and have it ready again after so many seconds."""
        async with self._one_at_a_time:
            await self.server.stop(immediate=immediate)
            await asyncio.sleep(down)
            await self.server.start()

    async def kill_postgres(self, down: float = 0.0) -> None:
        """The same by `kill -9` of all its processes."""
        async with self._one_at_a_time:
            await self.server.kill()
            await asyncio.sleep(down)
            await self.server.start()

    async def failover(self) -> Server:
        """Kill the primary and promote its replica. Gives the old one, which is down."""
        assert self.replica is not None, "this world was made without a replica"
        async with self._one_at_a_time:
            old, self.server, self.replica = self.server, self.replica, None
            await old.kill()
            if self.options.replica == "asynchronous":
                self.audit.forget()  # what was seen may never have been
            await self.server.promote()
            for name, proxy in self.proxies.items():
                if name != REPLICA and name not in self.worker_names:
                    proxy.retarget("127.0.0.1", self.server.port)
                    proxy.cut()
        return old

    async def unsettled(self) -> int:
        """How many tasks still have something to do; those that are paused have not."""
        return await unsettled(self.dsn, _PATIENCE)

    async def history(self, load: Recorded) -> History:
        """All that is known, at the end."""
        found = await collect(self.dsn, self.folder)
        return History(
            began_at=self.began_at,
            ended_at=time.time(),
            lease=self.options.lease,
            submitted=list(load.submitted),
            changed=list(load.changed),
            calls=found.calls,
            effects=found.effects,
            faults=list(self.faults),
            finals=found.finals,
            sightings=list(self.audit.sightings),
            routes=list(self.routes),
            gateways=[] if self.broker is None else self.api_names,
        )

    # How it is made

    async def _build(self) -> None:
        self.server = await self._make_server()
        await self._proxy(HARNESS)
        if self.options.replica is not None:
            self.replica = await self._make_replica()
        await prepare(self.server)
        self._stack.callback(self._kill_all)
        self._observer = observer_of(self.folder, self._epoch)
        self._stack.callback(self._observer.kill)
        self._observer.start()
        if self.options.pipe is not None:
            self.broker = await self._stack.enter_async_context(
                Broker(self.options.pipe, self.folder / "broker", self.worker_names)
            )
            self.proxies |= self.broker.proxies
        for name in self.api_names:
            await self._add_api(name)
        for name in self.node_names:
            await self._add(name, "scheduler", node_slots=self.options.slots)
        languages = itertools.cycle(self.options.languages)
        for number, name in enumerate(self.worker_names):
            gateway = self.api_names[number % len(self.api_names)]
            await self._add_worker(name, next(languages), gateway)
        self.audit = Audit(self.dsn)
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for work in (self._tend(), self._tend_postgres(), self.audit.run()):
            self._stack.callback(group.create_task(work).cancel)
        self.observer_url = await address_of(self._observer)
        everyone = (*self.api_names, *self.node_names, *self.worker_names)
        await self.until_serving(*everyone, within=_START_SECONDS)
        self.began_at = time.time()

    async def _make_server(self) -> Server:
        folder, settings = self.folder / "postgres", {}
        if self.options.tmpfs_megabytes is not None:
            self.tmpfs = self._stack.enter_context(Tmpfs(folder, self.options.tmpfs_megabytes))
            settings = _SMALL_DISK
        server = Server(folder, settings)
        self._stack.push_async_callback(server.close)
        await server.start()
        return server

    async def _make_replica(self) -> Server:
        upstream = await self._proxy(REPLICA)
        replica = await self.server.make_replica(
            self.folder / "replica",
            synchronous=self.options.replica == "synchronous",
            upstream=upstream.port,
        )
        self._stack.push_async_callback(replica.close)
        return replica

    async def _proxy(self, name: str) -> Proxy:
        proxy = Proxy(("127.0.0.1", self.server.port))
        self.proxies[name] = await self._stack.enter_async_context(proxy)
        return proxy

    async def _add_api(self, name: str) -> None:
        held = self._stack.enter_context(reserve_port())
        port = held.getsockname()[1]
        self.api_urls.append(f"http://127.0.0.1:{port}")
        self.api_ports.append(port)
        await self._add(name, "api", api_port=port)

    async def _add(self, name: str, command: str, **settings: object) -> None:
        proxy = await self._proxy(name)
        dsn = self.server.dsn_at(proxy.port)
        environ = environment(
            self.folder,
            database_url=dsn,
            node_name=name,
            node_lease_seconds=self.options.lease,
            node_timeout_grace_seconds=self.options.grace,
            node_prefetch=self.options.slots,
            **self._handlers_run_by(),
            proof_folder=self.folder,
            database_handler_url=self.server.handler_dsn_at(proxy.port),
            # So that a process with a wrong clock can tell the time all the same.
            proof_epoch=self._epoch,
            **settings,
        )
        self._begin(name, [command], environ)

    def _handlers_run_by(self) -> dict[str, object]:
        """Settings that leave the handlers to the nodes, or to remote workers."""
        if self.options.workers:
            pipe = {} if self.broker is None else self.broker.settings()
            return {"gateway_lease_seconds": self.options.lease, **pipe}
        return {"node_app": "proof.campaigns.handlers:app"}

    async def _add_worker(self, name: str, language: Language, gateway: str) -> None:
        """A worker without a database, with a proxy between it and its gateway."""
        if self.broker is None:
            proxy = Proxy(("127.0.0.1", self._port(gateway)), of_postgres=False)
            self.proxies[name] = await self._stack.enter_async_context(proxy)
            self.lead(name, gateway)
            way: dict[str, object] = {"url": f"http://127.0.0.1:{proxy.port}"}
        else:  # it finds its gateways itself
            self.routes.append(Route(name, str(self.options.pipe), time.time()))
            way = self.broker.settings(self.proxies[name].port)
        environ = environment(
            self.folder,
            **way,
            node_name=name,
            node_slots=self.options.slots,
            node_prefetch=self.options.slots,
            node_timeout_grace_seconds=self.options.grace,
            proof_folder=self.folder,
            proof_epoch=self._epoch,
        )
        command = command_of(language, self.folder)
        if command is None:
            self._begin(name, ["worker", "proof.campaigns.remote_handlers:app"], environ)
        else:
            boot = [*_FOREIGN, str(os.getpid()), *command]
            self._start_member(Member(name, self.folder, boot, environ))

    def _begin(self, name: str, command: list[str], environ: dict[str, str]) -> None:
        environ[CRASH_FILE] = str(points.crash_file(self.folder, name))
        if self.options.mutant is not None:
            environ[MUTANT] = self.options.mutant
        self._start_member(Member(name, self.folder, [*_BOOT, str(os.getpid()), *command], environ))

    def _start_member(self, member: Member) -> None:
        if seconds := self.options.skews.get(member.name):
            member.extra = faketime(seconds)
        self.members[member.name] = member
        member.start()

    def _kill_all(self) -> None:
        for member in self.members.values():
            member.kill()

    # How it is kept running

    def _notice(self, name: str) -> None:
        death = self.members[name].noticed()
        if death is not None:
            absent = self.options.downtime if death.code == -signal.SIGKILL else _ABSENT
            self._restarts[name] = time.monotonic() + absent

    async def _tend(self) -> None:
        """Start again what has ended, as whoever runs Gnomon would."""
        while True:
            assert self._observer.alive, "the observer has died: nothing is known any more"
            for name in self.members:
                self._notice(name)
                if self._restarts.get(name, math.inf) <= time.monotonic():
                    self.start(name)
            self._balance()
            await asyncio.sleep(_STEP)

    def _balance(self) -> None:
        """Lead workers whose gateway is away to one that serves, as a load balancer does."""
        if self.broker is not None:
            return
        for number, worker in enumerate(self.worker_names):
            first = number % len(self.api_names)
            order = (*self.api_names[first:], *self.api_names[:first])
            fit = (name for name in order if self.serving(name) and name not in self.leaving)
            serving = next(fit, None)
            if serving is not None and self._led.get(worker, serving) != serving:
                self.lead(worker, serving)
                self.proxies[worker].cut()

    def lead(self, worker: str, gateway: str) -> None:
        """Have new connections of a remote worker lead to this API process."""
        self._led[worker] = gateway
        self.routes.append(Route(worker, gateway, time.time()))
        self.proxies[worker].retarget("127.0.0.1", self._port(gateway))

    def _port(self, api: str) -> int:
        return self.api_ports[self.api_names.index(api)]

    async def _tend_postgres(self) -> None:
        while True:
            await asyncio.sleep(_ABSENT)
            if self.server.alive or self._one_at_a_time.locked():
                continue
            async with self._one_at_a_time:
                with contextlib.suppress(ServerEnded):  # its disk may be full still
                    await self.server.start()
