"""Errors of workflows and their runs."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class WorkflowRunNotFound(GnomonError):
    """Unknown here, or another tenant's."""

    def __init__(self, run_id: UUID | str) -> None:
        super().__init__(f"workflow run {run_id} not found")
        self.run_id = run_id


class WorkflowNotFound(GnomonError):
    """Unknown here, or another tenant's."""

    def __init__(self, name: str, version: int | None = None) -> None:
        which = name if version is None else f"{name}, version {version},"
        super().__init__(f"workflow {which} not found")
        self.name = name
        self.version = version


class TooManyWorkflows(GnomonError):
    """As many as a tenant may have."""

    def __init__(self, most: int, versions: int) -> None:
        super().__init__(
            f"a tenant has at most {most} workflows, and {versions} versions of each: delete what "
            "is not needed"
        )
        self.most = most
        self.versions = versions


class OutputNotFound(GnomonError):
    """A node that has not ended, or is not of the run."""

    def __init__(self, node: str) -> None:
        super().__init__(f"node {node} has no output: it has not ended, or is not of this run")
        self.node = node


class RunHasEnded(GnomonError):
    """A run in a state that forbids this."""

    def __init__(self, run_id: UUID, status: str, action: str, remedy: str = "") -> None:
        detail = f"workflow run {run_id} is {status} and cannot be {action}"
        super().__init__(f"{detail}: {remedy}" if remedy else detail)
        self.run_id = run_id
        self.status = status
        self.action = action
        self.remedy = remedy


class SpawnRefused(GnomonError):
    """Tasks that an execution has spawned and that cannot be stored: it has failed."""

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        super().__init__(f"what it has spawned is refused: {reason}")
        self.reason = reason
        self.retryable = retryable  # another execution may find room


class SignalDiffers(GnomonError):
    """A signal of this name was sent before, with other data."""

    def __init__(self, run_id: UUID, name: str) -> None:
        super().__init__(
            f"the signal {name} was sent to workflow run {run_id} before, with other data: the "
            "first one holds"
        )
        self.run_id = run_id
        self.name = name


class TooManySignals(GnomonError):
    """As many signals as are kept for a run."""

    def __init__(self, run_id: UUID, most: int) -> None:
        super().__init__(f"workflow run {run_id} has {most} signals, which is as many as are kept")
        self.run_id = run_id
        self.most = most


class BatchNotFound(GnomonError):
    """Unknown here, or another tenant's."""

    def __init__(self, batch_id: UUID | str) -> None:
        super().__init__(f"batch {batch_id} not found")
        self.batch_id = batch_id


class BatchIsClosed(GnomonError):
    """A batch in a state that forbids this."""

    def __init__(self, batch_id: UUID, status: str, action: str, remedy: str = "") -> None:
        detail = f"batch {batch_id} is {status} and cannot be {action}"
        super().__init__(f"{detail}: {remedy}" if remedy else detail)
        self.batch_id = batch_id
        self.status = status
        self.action = action
        self.remedy = remedy


class BatchIsFull(GnomonError):
    """As many tasks as a batch may have."""

    def __init__(self, batch_id: UUID, most: int) -> None:
        super().__init__(f"batch {batch_id} has {most} tasks, which is the most: open another one")
        self.batch_id = batch_id
        self.most = most


class TooManyBatches(GnomonError):
    """As many open batches as a tenant may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"a tenant has at most {most} open batches: close those that are complete")
        self.most = most
