"""Errors of worker sessions."""

from uuid import UUID

from gnomon.model.errors import GnomonError


class WorkerSessionNotFound(GnomonError):
    """No such session for this tenant."""

    def __init__(self, session_id: UUID | str) -> None:
        super().__init__(f"there is no worker session {session_id}")
        self.session_id = session_id


class WorkerSessionGone(GnomonError):
    """The session was left or declared dead, and its tasks run elsewhere."""

    def __init__(self, session_id: UUID) -> None:
        super().__init__(
            f"the worker session {session_id} has ended: end what runs for it, and open another"
        )
        self.session_id = session_id


class WrongSessionSecret(GnomonError):
    """The request does not prove that it comes from the worker that opened the session."""

    def __init__(self) -> None:
        super().__init__(
            "the header gnomon-session-secret is missing or wrong; send the secret that the "
            "session was opened with"
        )


class TooManyWorkerSessions(GnomonError):
    """The tenant, or the key, has as many sessions as it may."""

    def __init__(self, whose: str, most: int) -> None:
        super().__init__(
            f"{whose} has {most} worker sessions already; close some, or let each have more slots"
        )
        self.whose = whose
        self.most = most


class GatewayUnready(GnomonError):
    """The gateway of this process starts, stops, or has lost its lease: another one, or this one a
    moment later, answers."""

    def __init__(self) -> None:
        super().__init__("the gateway of this process does not answer workers now; try again")
