"""Traces from a submitter's span to the receiver's, read back from the exporter."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.collector import Collector, Received, collecting
from tests.integration.nodes import running_node
from tests.integration.support import Connection, end_of
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.client.client import Client
from gnomon.client.types.tasks import TaskSpec
from gnomon.clock import SystemClock
from gnomon.model.lifecycle import State
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import HttpTarget
from gnomon.model.task import TaskKey
from gnomon.wiring.api import serve

PRODUCER, CLIENT, CONSUMER = 4, 3, 5
ONE_RETRY = RetryPolicy(max_retries=1, base_seconds=0.0, max_seconds=0.0, jitter=False)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found
