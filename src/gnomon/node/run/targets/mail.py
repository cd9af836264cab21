"""E-mail: one message an execution, to a server of the settings."""

from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import aiosmtplib

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.text import storable
from gnomon.node.run.targets import MayBegin, always
from gnomon.notify.notification import Notification
from gnomon.notify.wording import html_of, subject, text_of
from gnomon.settings import NotifySettings

_PERMANENT = 500  # replies from here on are refusals; those below pass
_CONNECT_SECONDS = 15.0
_NO_SERVER = "no mail server is set: notify.smtp_host"


class Mailer:
    """Sends notifications by e-mail."""

    def __init__(
        self, settings: NotifySettings, clock: Clock, may_begin: MayBegin = always
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._may_begin = may_begin

    async def send(
        self, address: str, notification: Notification, message_id: str
    ) -> Outcome | None:
        """One message. `message_id` is the same whenever the same one is sent again. None: the
        lease was over when the server was connected."""
        settings = self._settings
        if settings.smtp_host is None:
            return Outcome(OutcomeKind.FAILED, error=_NO_SERVER, uncalled=True)
        try:
            message = self._message(address, notification, message_id)
        except ValueError as error:
            detail = f"it cannot be written: {error}"
            return Outcome(OutcomeKind.FAILED, error=detail, retryable=False, uncalled=True)
        try:
            async with aiosmtplib.SMTP(
                hostname=settings.smtp_host,
                port=settings.smtp_port,
                use_tls=settings.smtp_tls == "tls",
                start_tls=settings.smtp_tls == "starttls",
                username=settings.smtp_user,
                password=settings.smtp_password,
                timeout=_CONNECT_SECONDS,
            ) as server:
                if not self._may_begin():
                    return None
                _, answer = await server.send_message(message, recipients=[address])
        except aiosmtplib.SMTPRecipientsRefused as error:
            refusals = error.recipients
            return _refused(refusals[0].code, refusals[0].message)
        except aiosmtplib.SMTPResponseException as error:
            return _refused(error.code, error.message)
        except (aiosmtplib.SMTPException, OSError) as error:
            detail = f"{type(error).__name__}: {error}"
            return Outcome(OutcomeKind.FAILED, error=storable(detail[:500]), unreachable=True)
        return Outcome(OutcomeKind.SUCCEEDED, response_body=storable(answer[:500]))

    def _message(self, address: str, notification: Notification, message_id: str) -> EmailMessage:
        """Raises ValueError where a header would have a line end: nobody can add others."""
        confirm_at = self._settings.confirm_url
        message = EmailMessage(policy=SMTP)
        message["From"] = self._settings.sender
        message["To"] = Address(addr_spec=address)
        message["Subject"] = subject(notification)
        message["Date"] = format_datetime(self._clock.now())
        message["Message-ID"] = f"<{message_id}@gnomon>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text_of(notification, confirm_at))
        message.add_alternative(html_of(notification, confirm_at), subtype="html")
        return message


def _refused(code: int, message: str) -> Outcome:
    return Outcome(
        OutcomeKind.FAILED,
        error=storable(f"SMTP {code} {message}"[:500]),
        retryable=code < _PERMANENT,
        response_status=code,
    )
