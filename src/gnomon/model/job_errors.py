"""Errors about cron jobs: see errors.py."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class DefinitionChanged(GnomonError):
    """The definition of the cron job is not the one that a change was made from."""

    def __init__(self, name: str, seen: int, found: int) -> None:
        super().__init__(
            f"cron job {name!r} was changed meanwhile: its definition_version is {found}, not "
            f"{seen}; read it again, and decide anew"
        )
        self.name = name
        self.seen = seen
        self.found = found


class CronJobNotFound(GnomonError):
    """No such cron job for this tenant."""

    def __init__(self, ref: UUID | str) -> None:
        super().__init__(f"there is no cron job {ref}")
        self.ref = ref


class NameTaken(GnomonError):
    """Another cron job of the tenant has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a cron job named {name!r} already; change it, or replace it")
        self.name = name


class Overlapping(GnomonError):
    """The policy of the cron job forbids another run before this one has ended."""

    def __init__(self, name: str, task_id: UUID | None) -> None:
        super().__init__(
            f"cron job {name!r} skips runs that overlap, and its run {task_id} has not ended; "
            "wait for it, cancel it, or set overlap_policy to queue"
        )
        self.name = name
        self.task_id = task_id
