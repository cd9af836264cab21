"""A collector of spans: takes OTLP over HTTP, as protobuf, and can be down, slow or silent."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Received:
    """A span as it came over the wire."""

    def __init__(self, span: Span, service: str) -> None:
        self.name, self.kind, self.service = span.name, span.kind, service
        self.trace_id, self.span_id = span.trace_id.hex(), span.span_id.hex()
        self.parent_id, self.state = span.parent_span_id.hex(), span.trace_state
        self.failed, self.status = span.status.code == 2, span.status.message
        self.attributes = {each.key: _value(each.value) for each in span.attributes}
        self.links = [
            (link.trace_id.hex(), link.span_id.hex(), _value(link.attributes[0].value))
            for link in span.links
        ]


class Collector:
    """Keeps the spans that it was sent. `status`: what it answers; `silent`: it does not."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.silent = False
        self.ended = threading.Event()
        self.url = ""

    def named(self, name: str) -> list[Received]:
        return [span for span in list(self.spans) if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            assert self.headers["content-type"] == "application/x-protobuf"
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            if collector.silent:
                collector.ended.wait(30)
                return
            if collector.status == 200:
                collector.spans += _read(body)
            self.send_response(collector.status)
            self.send_header("content-type", "application/x-protobuf")
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield collector
    finally:
        collector.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _read(body: bytes) -> list[Received]:
    sent = ExportTraceServiceRequest.FromString(body)
    return [
        Received(span, _service(resource))
        for resource in sent.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _service(resource: Any) -> str:
    named = {each.key: _value(each.value) for each in resource.resource.attributes}
    return str(named["service.name"])


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
