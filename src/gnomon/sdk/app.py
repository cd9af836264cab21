"""The app: the handlers of a program, and what they have in common when they run."""

import inspect
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from types import FrameType, MappingProxyType, SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from gnomon.model.duration import Duration, seconds_of
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.sdk.declaring.cron import (
    CronOptions,
    DeclaredCron,
    ScheduledWork,
    declared_cron,
)
from gnomon.sdk.declaring.decorators import CronDecorator, TaskDecorator
from gnomon.sdk.declaring.handler import Blocking, Handler, TaskFunction
from gnomon.sdk.declaring.options import TASK_FIELDS, TaskOptions
from gnomon.sdk.declaring.parameters import called, local_names
from gnomon.sdk.declaring.providers import Provider, Providers, functions_of
from gnomon.sdk.errors import InvalidHandler, InvalidWorkflow, UnknownHandler
from gnomon.sdk.executing.context import TaskContext, current
from gnomon.sdk.executing.handler_database import HandlerDatabase
from gnomon.sdk.submitting.submitter import Submitter
from gnomon.sdk.workflow.workflow import Workflow, WorkflowDecorator, WorkflowOptions

P = ParamSpec("P")
R = TypeVar("R")

CallNext = Callable[[], Awaitable[object]]
Middleware = Callable[[TaskContext, CallNext], Coroutine[Any, Any, object]]
Lifespan = Callable[["Gnomon"], AbstractAsyncContextManager[object]]

_M = TypeVar("_M", bound=Middleware)
_L = TypeVar("_L", bound=Callable[..., Any])
_AnyHandler = TaskFunction[..., Any, ..., Any]


class Gnomon(Submitter):
    """The handlers of a program, and the way to submit tasks to them. Making one does no I/O."""

    def __init__(
        self,
        *,
        url: str | None = None,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        database: str | None = None,
    ) -> None:
        """`url` and `key` are those of an API to submit to. Without a `url` that is decided at the
        first use: GNOMON_URL, else the database of DATABASE_URL, else the `gnomon up` of this
        folder. `tenant` is the one whose tasks the handlers run; over HTTP, the key decides.
        `database` is that of transactional handlers; else GNOMON_DATABASE_HANDLER_URL says it."""
        super().__init__(url, key, tenant)
        self.database = database
        self._transactions: HandlerDatabase | None = None
        self.state = SimpleNamespace()  # what the lifespan keeps for handlers, such as a pool
        self._handlers: dict[str, Handler[..., Any]] = {}
        self._jobs: list[DeclaredCron] = []
        self._workflows: dict[str, Workflow[..., Any]] = {}
        self._middleware: tuple[Middleware, ...] = ()
        self._lifespan: Lifespan | None = None
        self._overrides: Mapping[Callable[..., Any], Provider] = {}

    @property
    def handlers(self) -> Mapping[str, Handler[..., Any]]:
        """By name and by alias."""
        return MappingProxyType(self._handlers)

    @property
    def jobs(self) -> Sequence[DeclaredCron]:
        """Cron jobs that are declared beside their handlers."""
        return tuple(self._jobs)

    @property
    def workflows(self) -> Mapping[str, Workflow[..., Any]]:
        """By name."""
        return MappingProxyType(self._workflows)

    # Declaring

    @overload
    def task(
        self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[TaskContext, P], R], /
    ) -> TaskFunction[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]
    ) -> Any:
        """Make a function the handler of the task type of its name. Options are what its tasks
        start with. Raises InvalidHandler."""
        if function is not None:
            return self._declare(function, options, sys._getframe(1))

        def declare(function: Callable[..., Any]) -> _AnyHandler:
            return self._declare(function, options, sys._getframe(1))

        return declare

    def _declare(
        self, function: Callable[..., Any], options: Mapping[str, Any], scope: FrameType
    ) -> _AnyHandler:
        handler: _AnyHandler = TaskFunction(function, options, local_names(function, scope))
        self._add(handler)
        return handler

    def _check_names(self, handler: Handler[..., Any]) -> None:
        for name in (handler.name, *handler.aliases):
            if name in self._handlers:
                raise InvalidHandler(
                    f"two handlers are called {name!r}: {self._handlers[name].place} and "
                    f"{handler.place}; give one of them another name="
                )

    def _add(self, handler: Handler[..., Any]) -> None:
        self._check_names(handler)
        self._handlers |= dict.fromkeys((handler.name, *handler.aliases), handler)
        handler.app = self

    def cron(self, expression: str, /, **options: Unpack[CronOptions]) -> CronDecorator:
        """Run a handler by a cron expression, such as `0 9 * * MON-FRI`. Above `@app.task`, or
        alone: then it makes the function a handler, too. Above `@app.workflow`, each fire is a run
        of it. Raises InvalidHandler."""
        if not isinstance(expression, str):
            raise InvalidHandler(
                f'{expression!r} is no cron expression: write @app.cron("0 9 * * *")'
            )
        return self._scheduled({"cron_expression": expression}, options)

    def every(self, interval: Duration, /, **options: Unpack[CronOptions]) -> CronDecorator:
        """Run a handler at an interval, such as `10m`. As `cron` otherwise."""
        try:
            seconds = seconds_of(interval)
        except ValueError as error:
            raise InvalidHandler(f"every: {error}") from None
        return self._scheduled({"interval_seconds": seconds}, options)

    def _scheduled(self, timing: Mapping[str, Any], options: CronOptions) -> CronDecorator:
        def declare(function: Any) -> Any:
            if isinstance(function, Workflow):
                return self._scheduled_workflow(function, timing, options)
            handler = function
            if not isinstance(function, Handler):
                of_tasks = {key: value for key, value in options.items() if key in TASK_FIELDS}
                names = local_names(function, sys._getframe(1))
                handler = TaskFunction(function, of_tasks, names)
                self._check_names(handler)
            elif self._handlers.get(function.name) is not function:
                raise InvalidHandler(f"{function.name} ({function.place}) is of another app")
            self._add_job(declared_cron(ScheduledWork.of_handler(handler), timing, options))
            if handler is not function:
                self._add(handler)
            return handler

        return declare

    def _scheduled_workflow(
        self, workflow: Workflow[..., Any], timing: Mapping[str, Any], options: CronOptions
    ) -> Workflow[..., Any]:
        if self._workflows.get(workflow.name) is not workflow:
            raise InvalidHandler(f"{workflow.name} ({workflow.place}) is of another app")
        self._add_job(declared_cron(workflow.scheduled(), timing, options))
        return workflow

    def _add_job(self, job: DeclaredCron) -> None:
        for other in self._jobs:
            if other.name == job.name:
                raise InvalidHandler(
                    f"two cron jobs are called {job.name!r}, of {other.place} and {job.place}; "
                    "give one of them another name="
                )
        self._jobs.append(job)

    @overload
    def workflow(self, function: Callable[P, R], /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self, function: None = None, /, **options: Unpack[WorkflowOptions]
    ) -> WorkflowDecorator: ...
    def workflow(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[WorkflowOptions]
    ) -> Any:
        """Make a function a workflow: it is called once, here, and draws the graph of its steps.
        Raises InvalidWorkflow."""
        if function is not None:
            return self._draw(function, options, sys._getframe(1))

        def draw(function: Callable[..., Any]) -> Workflow[..., Any]:
            return self._draw(function, options, sys._getframe(1))

        return draw

    def _draw(
        self, function: Callable[..., Any], options: Mapping[str, Any], scope: FrameType
    ) -> Workflow[..., Any]:
        drawn: Workflow[..., Any] = Workflow(function, options, local_names(function, scope))
        if drawn.name in self._workflows:
            raise InvalidWorkflow(
                f"two workflows are called {drawn.name!r}: {self._workflows[drawn.name].place} and "
                f"{drawn.place}; give one of them another name="
            )
        self._workflows[drawn.name] = drawn
        drawn.app = self
        return drawn

    def middleware(self, function: _M) -> _M:
        """Put a function around every execution: `async def timing(ctx, call_next)`. The one that
        is declared first is the outermost."""
        if not inspect.iscoroutinefunction(function) or _count(function) != 2:
            raise InvalidHandler(
                f"{called(function)}: middleware is written "
                "`async def name(ctx, call_next)`, and awaits call_next()"
            )
        self._middleware = (*self._middleware, function)
        return function

    def lifespan(self, function: _L) -> _L:
        """Declare what holds while handlers run: `async def lifespan(app)` with one `yield`."""
        if self._lifespan is not None:
            raise InvalidHandler(f"{called(function)}: the app has a lifespan already")
        if _count(function) != 1 or inspect.iscoroutinefunction(function):
            raise InvalidHandler(
                f"{called(function)}: a lifespan is written `async def name(app)`, with one yield"
            )
        is_generator = inspect.isasyncgenfunction(function)
        self._lifespan = asynccontextmanager(function) if is_generator else function
        return function

    @contextmanager
    def override(
        self, provider: Callable[..., Any], replacement: Callable[..., Any]
    ) -> Iterator[None]:
        """For tests: within this block handlers get what `replacement` gives, in place of what the
        dependency `provider` gives."""
        made = Providers({}).provider(replacement)
        if provider in functions_of(made):
            raise InvalidHandler(
                f"{called(replacement)} takes the place of {provider.__qualname__}, so it cannot "
                "depend on it"
            )
        before = self._overrides
        self._overrides = {**before, provider: made}
        try:
            yield
        finally:
            self._overrides = before

    # Running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The app's lifespan. Entered once in each process that runs handlers."""
        self._transactions = HandlerDatabase(self.database)
        try:
            if self._lifespan is None:
                yield
                return
            async with self._lifespan(self):
                yield
        finally:
            await self._transactions.close()

    async def execute(
        self, name: str, payload: bytes | None, ctx: TaskContext, blocking: Blocking
    ) -> object:
        """Run a task's handler once: its value, or whatever it raises. Raises Reject where the
        payload does not fit, UnknownHandler, and NotBegun where it waited for too long to be
        called."""
        handler = self._handlers.get(name)
        if handler is None:
            raise UnknownHandler(name, self._handlers)
        token = current.set(ctx)
        try:
            if self._middleware or handler.transactional:
                run: CallNext = partial(handler.run, payload, ctx, blocking, self._overrides)
                run = partial(_after_a_wait, ctx, run)
                if handler.transactional:
                    run = partial(self._in_transaction, ctx, run)
                for around in reversed(self._middleware):
                    run = partial(around, ctx, run)
                return await run()
            if handler.is_plain:
                ctx.called = True
                return await handler.function(*handler.decode(payload))
            return await handler.run(payload, ctx, blocking, self._overrides)
        finally:
            try:  # noqa: SIM105 - which would cost every execution
                current.reset(token)
            except ValueError:
                pass  # an execution that is dropped is closed in the context of whoever drops it

    async def _in_transaction(self, ctx: TaskContext, run: CallNext) -> object:
        if self._tested and self.database is None:
            return await run()  # a test without a database: there is no ctx.connection
        assert self._transactions is not None, "the app is running"
        return await self._transactions.run(ctx, run)


async def _after_a_wait(ctx: TaskContext, run: CallNext) -> object:
    """Run it if it still may be: the transaction or a middleware may have waited for long."""
    ctx.ask_to_begin()
    return await run()


def _count(function: Callable[..., Any]) -> int:
    """How many arguments it must be given; of what cannot be called, none will do."""
    if not callable(function):
        return -1
    parameters = inspect.signature(function).parameters.values()
    return sum(each.default is each.empty for each in parameters)
