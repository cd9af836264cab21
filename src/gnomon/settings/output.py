"""Section `output`: logs and metrics."""

from typing import ClassVar

from gnomon.settings.section import Section

_LOG_FORMATS = ("auto", "console", "json")


class OutputSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "output"

    log_format: str = "auto"  # json, console, or auto: console on a terminal
    log_level: str = "info"
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0  # of a node; 0: none. The API serves its own beside its resources

    def __post_init__(self) -> None:
        rule = f"be one of {', '.join(_LOG_FORMATS)}"
        self.require("log_format", rule, holds=self.log_format in _LOG_FORMATS)
        in_range = 0 <= self.metrics_port <= 65535
        self.require("metrics_port", "be between 0 and 65535 (0 serves none)", holds=in_range)
