"""Settings of the installation, which all processes on one database share."""

import msgspec

from gnomon.settings import Settings, SettingsError
from gnomon.store.postgres.database import Database

_DISAGREES = (
    "auth.enabled is false in the settings here, and on in this database; leave the setting out "
    "to follow the database, or turn it off for all processes with `gnomon authentication off`"
)


class PostgresInstallation:
    """Whether authentication is on. The database decides: otherwise a process would call addresses
    that the others refuse."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def authentication(self) -> bool:
        row = await self._database.fetchrow("revision")
        assert row is not None, "the table has one row"
        on: bool = row["authentication"]
        return on

    async def set_authentication(self, *, on: bool) -> bool:
        """Returns whether that is a change."""
        return await self._database.fetchrow("set_authentication", on) is not None

    async def agree(self, wanted: bool | None) -> bool:
        """What applies, given the settings of this process. Any process may turn it on; one that is
        set to off while the database says on is refused: raises SettingsError."""
        if wanted:
            await self.set_authentication(on=True)
            return True
        on = await self.authentication()
        if on and wanted is False:
            raise SettingsError(_DISAGREES)
        return on


async def agreed(settings: Settings, dsn: str) -> Settings:
    """The settings of this process, with those of the installation in force."""
    database = Database(dsn, 1)
    await database.open()
    try:
        on = await PostgresInstallation(database).agree(settings.auth.enabled)
        auth = msgspec.structs.replace(settings.auth, enabled=on)
        return msgspec.structs.replace(settings, auth=auth)
    finally:
        await database.close()
