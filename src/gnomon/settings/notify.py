"""Section `notify`: how notifications are sent, and the heartbeat."""

from typing import ClassVar

from gnomon.settings.section import Section

_TLS = ("starttls", "tls", "none")
_SHORTEST_HEARTBEAT = 5.0


class NotifySettings(Section, frozen=True):
    SECTION: ClassVar[str] = "notify"

    smtp_host: str | None = None  # None: no e-mail is sent
    smtp_port: int = 587
    smtp_tls: str = "starttls"  # or tls from the first byte, or none
    smtp_user: str | None = None
    smtp_password: str | None = None
    sender: str | None = None  # From: of e-mail
    confirm_url: str | None = None  # the API's address as readers of e-mail reach it
    heartbeat_url: str | None = None  # called while all is well; None: none
    heartbeat_seconds: float = 60.0

    def __post_init__(self) -> None:
        self.require("smtp_tls", f"be one of {', '.join(_TLS)}", holds=self.smtp_tls in _TLS)
        self.require("smtp_port", "be between 1 and 65535", holds=0 < self.smtp_port < 65536)
        complete = self.smtp_host is None or bool(self.sender)
        self.require("sender", "be set too, where notify.smtp_host is", holds=complete)
        printable = self.sender is None or self.sender.isprintable()
        self.require("sender", "be an e-mail address in one line", holds=printable)
        paired = (self.smtp_user is None) == (self.smtp_password is None)
        self.require("smtp_password", "be set with notify.smtp_user, and not alone", holds=paired)
        called = self.heartbeat_url is None or self.heartbeat_url.startswith(
            ("http://", "https://")
        )
        self.require("heartbeat_url", "begin with http:// or https://", holds=called)
        slow = self.heartbeat_seconds >= _SHORTEST_HEARTBEAT
        self.require("heartbeat_seconds", f"be at least {_SHORTEST_HEARTBEAT:g}", holds=slow)

    @property
    def sends_mail(self) -> bool:
        return self.smtp_host is not None
