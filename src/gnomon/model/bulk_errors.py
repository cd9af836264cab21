"""Refusals of bulk operations. Part of the tree in errors.py."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class BulkOperationNotFound(GnomonError):
    """No such bulk operation for this tenant."""

    def __init__(self, operation_id: UUID | str) -> None:
        super().__init__(f"there is no bulk operation {operation_id}")
        self.operation_id = operation_id


class TooManyBulkOperations(GnomonError):
    """A tenant has as many bulk operations under way as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} bulk operations are under way, the most that may be; wait, or stop one"
        )
        self.most = most


class CountChanged(GnomonError):
    """Another number of tasks matches than the requester has confirmed."""

    def __init__(self, expected: int, count: int, *, capped: bool) -> None:
        found = f"{count} or more" if capped else str(count)
        super().__init__(
            f"you expect {expected} tasks, but {found} match now; nothing was changed. Look at "
            f"them again with dry_run, and expect {count}"
        )
        self.expected = expected
        self.count = count
        self.capped = capped
