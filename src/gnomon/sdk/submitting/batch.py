"""A batch: tasks that are put in within a block, and what follows when all have ended."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from gnomon.client import exchange
from gnomon.client.errors import ClientError
from gnomon.client.exchange import Rules, Steps
from gnomon.client.types.batches import BatchInfo, BatchSpec
from gnomon.model.duration import Duration, seconds_of
from gnomon.sdk.errors import InvalidOption
from gnomon.sdk.submitting.prepared import Prepared

if TYPE_CHECKING:
    from gnomon.sdk.submitting.submitter import Submitter


class BatchHandle:
    """A batch of tasks. A block opens it and closes it at its end, or cancels it where the block
    raises: what was put in is not the whole. Each method that asks the server has a `_sync`
    twin."""

    __slots__ = ("_app", "_id", "_spec")

    def __init__(
        self, app: "Submitter", spec: BatchSpec | None = None, batch_id: UUID | None = None
    ) -> None:
        self._app = app
        self._spec = spec
        self._id = batch_id

    def __repr__(self) -> str:
        return f"<BatchHandle {self._id or 'that is not open yet'}>"

    @property
    def id(self) -> UUID:
        """Raises InvalidOption before the batch is open."""
        if self._id is None:
            raise InvalidOption("this batch is not open yet: use it within `with app.batch():`")
        return self._id

    async def __aenter__(self) -> Self:
        self._id = (await self._app.client.open_batch(self._unopened())).batch_id
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.cancel()
        except ClientError as refused:
            error.add_note(self._not_cancelled(refused))

    def __enter__(self) -> Self:
        self._id = self._app.sync_client.open_batch(self._unopened()).batch_id
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close_sync()
            return
        try:
            self.cancel_sync()
        except ClientError as refused:
            error.add_note(self._not_cancelled(refused))

    def _not_cancelled(self, refused: ClientError) -> str:
        """For the error of a block, which whoever catches it must see, and not another one."""
        return f"batch {self._id} could not be cancelled, and expires if it is open: {refused}"

    async def close(self) -> None:
        """Lets nothing more in: its callbacks follow when all have ended."""
        await self._app.client.close_batch(self.id)

    def close_sync(self) -> None:
        self._app.sync_client.close_batch(self.id)

    async def cancel(self, *, interrupt: bool = False) -> None:
        """Cancels what has not started, and the callbacks; with `interrupt`, also what runs."""
        await self._app.client.cancel_batch(self.id, interrupt=interrupt)

    def cancel_sync(self, *, interrupt: bool = False) -> None:
        self._app.sync_client.cancel_batch(self.id, interrupt=interrupt)

    async def info(self) -> BatchInfo:
        """The batch in its present state, with its progress."""
        return await self._app.client.get_batch(self.id)

    def info_sync(self) -> BatchInfo:
        return self._app.sync_client.get_batch(self.id)

    async def wait(self, *, timeout: Duration | None = None) -> BatchInfo:
        """The batch once all of its tasks have ended, whatever became of them. Raises
        WaitTimeout."""
        return await self._app.client.carry_out(self._steps(timeout))

    def wait_sync(self, *, timeout: Duration | None = None) -> BatchInfo:
        """As `wait`, from synchronous code: it blocks."""
        return self._app.sync_client.carry_out(self._steps(timeout))

    def _steps(self, timeout: Duration | None) -> Callable[[Rules], Steps[BatchInfo]]:
        seconds = None if timeout is None else seconds_of(timeout)
        return lambda rules: exchange.wait_for_batch(self.id, seconds, rules)

    def _unopened(self) -> BatchSpec:
        if self._spec is None or self._id is not None:
            raise InvalidOption("this batch was opened before: make another with app.batch()")
        return self._spec


def batch_spec(
    name: str | None,
    on_success: Prepared[Any] | None,
    on_complete: Prepared[Any] | None,
    close_within: Duration | None,
) -> BatchSpec:
    """The batch to open. Raises InvalidOption."""
    callbacks = {"on_success": on_success, "on_complete": on_complete}
    for option, given in callbacks.items():
        if given is not None and not isinstance(given, Prepared):
            raise InvalidOption(f"{option}= must be what prepare() of a handler gives")
    try:
        seconds = None if close_within is None else seconds_of(close_within)
    except ValueError as error:
        raise InvalidOption(f"close_within= {error}") from None
    return BatchSpec(
        name=name,
        on_success=None if on_success is None else on_success.spec,
        on_complete=None if on_complete is None else on_complete.spec,
        close_within_seconds=seconds,
    )
