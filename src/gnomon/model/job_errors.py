"""Errors about cron jobs that several people change: see errors.py."""

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
