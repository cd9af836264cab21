"""What is remembered of texts that tenants write: bounded in bytes, however long the texts are."""

import json
import tracemalloc
from collections.abc import Callable

import pytest
from google.protobuf import descriptor_pb2

from gnomon.access import webhook_secret
from gnomon.cron.job import Definition, payload_of
from gnomon.model.remembered import KEPT_BYTES, MOST_KEPT, remembered, remembered_long
from gnomon.model.targets import target_url
from gnomon.model.targets.allow_list import AllowList, called_host
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.node.run.targets.grpc.messages import _parsed
from gnomon.node.run.targets.http import name_in
from gnomon.node.run.targets.signing import header_text
from gnomon.payload_schemas.pattern_weight import weigh
from gnomon.store.postgres.cron.rows import definition_of, stored_definition
from gnomon.store.postgres.dispatch.claimed_rows import decoded_policy, decoded_target

MB = 1024 * 1024
HOSTS = AllowList(None, ("api.example", "queue://events/*"))


def url(number: int) -> str:
    return f"http://api.example/{number}/".ljust(target_url.MOST_URL_CHARACTERS, "x")


def grpc_url(number: int) -> str:
    return url(number).replace("http://", "grpc://")


def topic(number: int) -> str:
    return f"queue://events/{number}/".ljust(target_url.MOST_URL_CHARACTERS, "x")


def target(number: int) -> str:
    """The largest that is accepted."""
    headers = {f"x-{each}": str(number).ljust(8192, "x") for each in range(64)}
    return json.dumps({"type": "http", "url": url(number), "headers": headers})


def policy(number: int) -> str:
    return json.dumps({"max_retries": number}) + " " * 100_000


def name(number: int) -> str:
    return str(number).ljust(100_000, "x")


def job(number: int) -> Definition:
    payload = {"text": "{{run_id}}", "more": str(number).ljust(500_000, "x")}
    made = Definition(
        name="late", task_type="work", target=PythonTarget("work"), cron_expression="@daily"
    )
    stored = json.loads(stored_definition(made)) | {"payload_template": payload}
    return definition_of(json.dumps(stored))


@pytest.mark.parametrize(
    ("call", "text", "times"),
    [
        (target_url.check_url, url, 2000),
        (target_url.check_grpc_url, grpc_url, 2000),
        (target_url.host_in, url, 2000),
        (webhook_secret.host_in, url, 2000),
        (name_in, url, 2000),
        (called_host, url, 2000),
        (lambda text: HOSTS.allows(HttpTarget(text)), url, 2000),
        (lambda text: HOSTS.allows(QueueTarget(text)), topic, 2000),
        (decoded_target, target, 8),
        (decoded_policy, policy, 30),
        (header_text, name, 30),
        (weigh, url, 60),
    ],
    ids=[
        "check_url", "check_grpc_url", "host_in", "secret_of_host", "name_in", "called_host",
        "hosts", "topics", "target", "policy", "header", "pattern",
    ],
)  # fmt: skip
def test_nothing_is_kept_of_long_texts(
    call: Callable[[str], object], text: Callable[[int], str], times: int
) -> None:
    # Python's own functions keep some, too: the last 128 URLs that were split.
    assert kept_after(lambda number: call(text(number)), times) < times * len(text(1)) / 4


def test_some_is_kept_of_the_payloads_of_cron_jobs() -> None:
    """Reading a large template takes as long as running many tasks."""
    assert kept_after(lambda number: payload_of(job(number)), 90) < 64 * MB


def test_some_is_kept_of_the_descriptors_that_servers_tell() -> None:
    def descriptor(number: int) -> bytes:
        name = str(number).ljust(400_000, "x")
        return bytes(descriptor_pb2.FileDescriptorProto(name=name).SerializeToString())

    assert kept_after(lambda number: _parsed(descriptor(number)), 90) < 24 * MB


def kept_after(call: Callable[[int], object], times: int) -> int:
    call(0)
    tracemalloc.start()
    try:
        for number in range(1, times + 1):
            call(number)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


class Upper:
    """Writes texts in capitals, and down which."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, text: str) -> str:
        self.made.append(text)
        return text.upper()


def test_what_is_short_is_made_once() -> None:
    upper = Upper()
    call = remembered(upper)
    assert [call(each) for each in ("a", "b", "a")] == ["A", "B", "A"]
    assert upper.made == ["a", "b"]


def test_what_is_long_is_made_every_time() -> None:
    upper = Upper()
    call = remembered(upper)
    for _ in range(2):
        assert call("a" * KEPT_BYTES) == "A" * KEPT_BYTES
    assert len(upper.made) == 2


def test_a_wide_letter_counts_for_what_it_takes() -> None:
    upper = Upper()
    call = remembered(upper)
    for _ in range(2):
        call("😀" * (KEPT_BYTES // 4))
    assert len(upper.made) == 2


def test_it_forgets_when_there_are_too_many() -> None:
    upper = Upper()
    call = remembered(upper)
    for number in range(MOST_KEPT):
        call(str(number))
    call("0")
    assert len(upper.made) == MOST_KEPT
    call("one more")
    call("0")
    assert len(upper.made) == MOST_KEPT + 2


def test_it_forgets_when_they_are_too_large_together() -> None:
    upper = Upper()
    call = remembered_long(1000, 2000)(upper)
    for first in ("a", "b", "a", "c", "a"):
        call(first * 900)
    assert "".join(each[0] for each in upper.made) == "abca"


def test_an_error_is_not_remembered() -> None:
    with pytest.raises(ValueError, match="host"):
        target_url.check_url("http://")
    with pytest.raises(ValueError, match="host"):
        target_url.check_url("http://")
