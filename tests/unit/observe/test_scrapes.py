"""Whoever connects to a node's metrics port costs the node little, and scrapes are answered."""

import socket
import threading
import urllib.request
from contextlib import ExitStack

from tests.unit.observe.probes import well
from tests.waiting import eventually_sync

from gnomon.observe.metrics.node import NodeMetrics
from gnomon.settings import OutputSettings

SILENT = 200


def test_silent_connections_take_few_threads_and_keep_no_scraper_out(
    unused_tcp_port: int,
) -> None:
    before = threading.active_count()
    with (
        NodeMetrics().served(OutputSettings(metrics_port=unused_tcp_port), well()),
        ExitStack() as opened,
    ):
        for _ in range(SILENT):
            opened.enter_context(socket.create_connection(("127.0.0.1", unused_tcp_port)))
        address = f"http://127.0.0.1:{unused_tcp_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"gnomon_info" in answer.read()
        eventually_sync(lambda: threading.active_count() - before < SILENT / 2)
