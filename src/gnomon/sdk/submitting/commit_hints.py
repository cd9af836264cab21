"""Tells nodes of a task right after the commit that it came with, where the framework has a hook.

Elsewhere nobody is told, and a node finds the task within a second. A hint may be lost, and no
error of it reaches the program.
"""

import contextlib
from typing import Any
from uuid import UUID

_HINT = "SELECT gnomon.hint(CAST(ARRAY[{}] AS uuid[]))"
_MOST = 50  # that a hint names; of more, nodes find the others themselves
_PENDING = "gnomon_submitted"


def hint_after_commit(package: str, connection: Any, task_id: UUID) -> None:
    """Sends the hint once the transaction is committed. Connections of drivers, and those of
    SQLAlchemy below its sessions, do not tell when that is."""
    if package == "django":
        _after_django(connection, task_id)
    elif package == "sqlalchemy":
        _after_session(connection, task_id)


def _statement(task_ids: list[UUID]) -> str:
    """An id has no character that would need quoting."""
    return _HINT.format(", ".join(f"'{each}'" for each in task_ids[:_MOST]))


def _after_django(connection: Any, task_id: UUID) -> None:
    def send() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_statement([task_id]))

    connection.on_commit(send, robust=True)


def _after_session(connection: Any, task_id: UUID) -> None:
    session = getattr(connection, "sync_session", connection)
    info = getattr(session, "info", None)
    if info is None or not hasattr(session, "get_bind") or hasattr(session, "exec_driver_sql"):
        return  # a connection
    if callable(session) and hasattr(session, "registry"):
        session = session()  # a scoped session stands for the one of its thread
        info = session.info
    pending = info.get(_PENDING)
    if pending is None:
        pending = info[_PENDING] = []
        _listen(session)
    pending.append(task_id)


def _listen(session: Any) -> None:
    from sqlalchemy import event, text

    @event.listens_for(session, "after_commit")
    def committed(session: Any) -> None:
        task_ids, session.info[_PENDING] = session.info.get(_PENDING, []), []
        if task_ids:
            with contextlib.suppress(Exception), session.get_bind().connect() as connection:
                connection.execute(text(_statement(task_ids)))
                connection.commit()

    @event.listens_for(session, "after_soft_rollback")
    def rolled_back(session: Any, transaction: Any) -> None:
        if not transaction.nested:
            session.info[_PENDING] = []
