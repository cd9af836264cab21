"""Section `tracing`: spans of sampled tasks, and where they are sent."""

from typing import ClassVar

from gnomon.settings.section import Section

_EXPORTERS = ("none", "otlp", "console")


class TracingSettings(Section, frozen=True):
    SECTION: ClassVar[str] = "tracing"

    exporter: str = "none"  # otlp: by OTLP over HTTP; console: to stderr. Needs gnomon[tracing]
    endpoint: str | None = None  # of traces; else OTEL_EXPORTER_OTLP_ENDPOINT, as all OpenTelemetry
    headers_file: str | None = None  # NAME: VALUE a line, such as a key of the collector's
    service_name: str | None = None  # else OTEL_SERVICE_NAME, else gnomon
    ratio: float = 0.0  # of submissions without a traceparent, those that begin a trace
    timeout_seconds: float = 5.0  # for an answer of the collector, and to send the rest at the end

    def __post_init__(self) -> None:
        known = self.exporter in _EXPORTERS
        self.require("exporter", f"be one of {', '.join(_EXPORTERS)}", holds=known)
        url = self.endpoint is None or self.endpoint.startswith(("http://", "https://"))
        self.require("endpoint", "be a URL, such as http://127.0.0.1:4318/v1/traces", holds=url)
        self.require("ratio", "be between 0 and 1", holds=0 <= self.ratio <= 1)
        self.require_positive("timeout_seconds")

    @property
    def is_on(self) -> bool:
        return self.exporter != "none"
