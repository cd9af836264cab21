"""The embedded store: a PostgreSQL 18 that `gnomon up` starts, keeps and stops."""

from gnomon.store.embedded.errors import EmbeddedError
from gnomon.store.embedded.server import EmbeddedServer, running_dsn

__all__ = ["EmbeddedError", "EmbeddedServer", "running_dsn"]
