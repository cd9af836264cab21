"""Section `output`: logs and metrics."""

from typing import ClassVar

from gnomon.settings.section import Section

_LOG_FORMATS = ("auto", "console", "json")
_LOG_LEVELS = ("debug", "info", "warning", "error", "critical")


class OutputSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "output"

    log_format: str = "auto"  # json, console, or auto: console on a terminal
    log_level: str = "info"
    handler_log_level: str = "info"  # of what handlers log by the standard library
    access_log: bool = False  # a line for each request; without it, at the level debug
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0  # of a node; 0: none. The API serves its own beside its resources
    metrics_socket: str = ""  # of one of several processes that are scraped together

    def __post_init__(self) -> None:
        self._require_one_of("log_format", _LOG_FORMATS)
        self._require_one_of("log_level", _LOG_LEVELS)
        self._require_one_of("handler_log_level", _LOG_LEVELS)
        in_range = 0 <= self.metrics_port <= 65535
        self.require("metrics_port", "be between 0 and 65535 (0 serves none)", holds=in_range)

    def _require_one_of(self, name: str, allowed: tuple[str, ...]) -> None:
        self.require(name, f"be one of {', '.join(allowed)}", holds=getattr(self, name) in allowed)
