"""A run of a workflow that was started, and its result."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import msgspec

from gnomon.client import exchange
from gnomon.client.calls import workflows as calls
from gnomon.client.exchange import Rules, Steps
from gnomon.client.types.workflows import WorkflowRunInfo
from gnomon.model.duration import Duration, seconds_of
from gnomon.model.errors import GnomonError
from gnomon.sdk.submitting.handle import ResultUnavailable
from gnomon.sdk.submitting.results import Results

if TYPE_CHECKING:
    from gnomon.sdk.app import Gnomon

R = TypeVar("R")

SUCCEEDED = "SUCCEEDED"


class WorkflowFailed(GnomonError):
    """A run that has no result: it was cancelled, a node has failed, or a dead letter holds it up.
    Then it goes on once that is retried."""

    def __init__(self, run: WorkflowRunInfo) -> None:
        about = f"run {run.run_id} of workflow {run.workflow or 'of its own'} is {run.status}"
        super().__init__(f"{about}{_why(run)}")
        self.run = run

    @property
    def run_id(self) -> UUID:
        return self.run.run_id

    @property
    def status(self) -> str:
        return self.run.status


class ResultPlace(Generic[R]):
    """Where the result of a run is: a step, and a path in its output."""

    def __init__(self, workflow: str, node: str | None, path: str, results: Results) -> None:
        self.workflow = workflow
        self.node = node
        self._path = path.split(".")[1:]
        self._results = results

    def decode(self, output: Any) -> R:
        """The result, from the output of the step. Raises InvalidResult."""
        value = output
        for part in self._path:
            value = _part(value, part)
        result: R = self._results.decode(msgspec.json.encode(value))
        return result


class RunHandle(Generic[R]):
    """A run that was started. Each method that asks the server has a `_sync` twin."""

    __slots__ = ("_app", "_place", "id")

    def __init__(self, app: "Gnomon", run_id: UUID, place: ResultPlace[R]) -> None:
        self.id = run_id
        self._app = app
        self._place = place

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def result(self, *, timeout: Duration | None = None) -> R:
        """What the workflow returns, once the run has succeeded. Raises WorkflowFailed;
        ResultUnavailable, where the step was skipped; WaitTimeout: then the run goes on."""
        if self._app.run_waits is not None:
            await self._app.run_waits.before(self.id)
        return await self._app.client.carry_out(self._steps(timeout))

    def result_sync(self, *, timeout: Duration | None = None) -> R:
        """As `result`, from synchronous code: it blocks."""
        if self._app.run_waits is not None:
            self._app.run_waits.before_sync(self.id)
        return self._app.sync_client.carry_out(self._steps(timeout))

    async def run(self) -> WorkflowRunInfo:
        """The run in its present state, with its nodes."""
        return await self._app.client.get_workflow_run(self.id)

    def run_sync(self) -> WorkflowRunInfo:
        return self._app.sync_client.get_workflow_run(self.id)

    async def status(self) -> str:
        return (await self.run()).status

    def status_sync(self) -> str:
        return self.run_sync().status

    async def cancel(self, *, interrupt: bool = False) -> None:
        """Cancels the run: what has not started never does; with `interrupt`, running tasks are
        interrupted."""
        await self._app.client.cancel_workflow_run(self.id, interrupt=interrupt)

    def cancel_sync(self, *, interrupt: bool = False) -> None:
        self._app.sync_client.cancel_workflow_run(self.id, interrupt=interrupt)

    async def retry(self, *nodes: str) -> "RunHandle[R]":
        """Starts a new run in which these steps of this one, and all below them, run again; without
        any, those that did not go well. The others lend their outputs. This run must have ended."""
        found = await self._app.client.retry_workflow_run(self.id, nodes=nodes)
        return RunHandle(self._app, found.run_id, self._place)

    def retry_sync(self, *nodes: str) -> "RunHandle[R]":
        found = self._app.sync_client.retry_workflow_run(self.id, nodes=nodes)
        return RunHandle(self._app, found.run_id, self._place)

    async def roll_back(self, *, interrupt: bool = False) -> None:
        """Undoes the completed steps of the run by their compensations, the last ones first; what
        has not started never does. Also of a run that has ended."""
        await self._app.client.roll_back_workflow_run(self.id, interrupt=interrupt)

    def roll_back_sync(self, *, interrupt: bool = False) -> None:
        self._app.sync_client.roll_back_workflow_run(self.id, interrupt=interrupt)

    async def pause(self) -> None:
        """Pauses the run: nothing of it starts."""
        await self._app.client.pause_workflow_run(self.id)

    def pause_sync(self) -> None:
        self._app.sync_client.pause_workflow_run(self.id)

    async def resume(self) -> None:
        """Resumes the run."""
        await self._app.client.resume_workflow_run(self.id)

    def resume_sync(self) -> None:
        self._app.sync_client.resume_workflow_run(self.id)

    async def signal(self, name: str, data: Any = None) -> None:
        """Sends a signal: steps that wait for it, now or later, go on with its data. The first of
        a name holds; the same again changes nothing."""
        await self._app.client.signal_workflow_run(self.id, name, data)

    def signal_sync(self, name: str, data: Any = None) -> None:
        """As `signal`, from synchronous code."""
        self._app.sync_client.signal_workflow_run(self.id, name, data)

    def _steps(self, timeout: Duration | None) -> Callable[[Rules], Steps[R]]:
        seconds = None if timeout is None else seconds_of(timeout)
        return lambda rules: _result(self.id, seconds, self._place, rules)


def _result(run_id: UUID, timeout: float | None, place: ResultPlace[R], rules: Rules) -> Steps[R]:
    """Waits for the run, and returns its result."""
    run = yield from exchange.wait_for_run(run_id, timeout, rules)
    if run.status != SUCCEEDED:
        raise WorkflowFailed(run)
    if place.node is None:
        return place.decode(None)
    node = next((each for each in run.nodes if each.node == place.node), None)
    if node is None or node.status != "COMPLETED":
        became = "gone" if node is None else node.status
        raise ResultUnavailable(run_id, f"its step {place.node} is {became}", "workflow run")
    found = yield from exchange.perform(calls.get_node_output(run_id, place.node), rules)
    if found.too_large:
        raise ResultUnavailable(run_id, f"what {place.node} returned was too large", "workflow run")
    return place.decode(found.result)


def _part(value: Any, part: str) -> Any:
    """A part of a value, as a placeholder names it; None where there is none."""
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal():
        return value[int(part)] if int(part) < len(value) else None
    return None


def _why(run: WorkflowRunInfo) -> str:
    failed = [each for each in run.nodes if each.error]
    if not failed:
        return ""
    told = "; ".join(f"{each.node}: {each.error}" for each in failed[:3])
    return f": {told}" + ("; …" if len(failed) > 3 else "")
