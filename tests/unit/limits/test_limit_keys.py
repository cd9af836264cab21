"""What keyed limiters find in payloads."""

import msgspec
import pytest

from gnomon.limits.limiter import MOST_KEY_CHARACTERS, Limiter, limit_keys

EACH = Limiter(tenant_id="t", name="each", key="/who", concurrency=1)


@pytest.mark.parametrize(
    "payload",
    [b'{"who": 1e999}', b'{"who": "ann", "n": -1e400}', b'{"who": %s}' % (b"9" * 5000),
     b"[" * 3000 + b"]" * 3000],
)  # fmt: skip
def test_what_cannot_be_read_is_limited_with_what_has_no_value(payload: bytes) -> None:
    """It is stored together with the tasks of others, who must not fail with it."""
    assert limit_keys([EACH], "mail", None, payload) == '{"each":""}'


@pytest.mark.parametrize(
    ("pointer", "payload", "key"),
    [
        ("/who", b'{"who": "ann"}', "ann"),
        ("/who", b'{"who": 7}', "7"),
        ("/who", b'{"who": {"b": [1, null]}}', '{"b":[1,null]}'),
        ("/who", b'{"who": null}', ""),
        ("/who", b'{"whom": "ann"}', ""),
        ("/who/name", b'{"who": {"name": "ann"}}', "ann"),
        ("/who/name", b'{"who": "ann"}', ""),
        ("/0", b'["ann", "bob"]', "ann"),
        ("/1", b'["ann", "bob"]', "bob"),
        ("/2", b'["ann", "bob"]', ""),
        ("/-1", b'["ann", "bob"]', ""),
        ("/a~1b/c~0d", b'{"a/b": {"c~d": "ann"}}', "ann"),
        ("/who", b'{"who": "%s"}' % (b"x" * 300), "x" * MOST_KEY_CHARACTERS),
        ("/who", None, ""),
    ],
)
def test_the_key_is_what_the_pointer_points_to(
    pointer: str, payload: bytes | None, key: str
) -> None:
    limiter = msgspec.structs.replace(EACH, key=pointer)
    found = limit_keys([limiter], "mail", None, payload)
    assert found is not None
    assert msgspec.json.decode(found) == {"each": key}


def test_only_limiters_of_the_task_look_into_it() -> None:
    of_mail = msgspec.structs.replace(EACH, name="mail", task_type="mail")
    of_queue = msgspec.structs.replace(EACH, name="queue", queue="slow")
    unkeyed = msgspec.structs.replace(EACH, name="all", key=None)
    limiters = [of_mail, of_queue, unkeyed]
    payload = b'{"who": "ann"}'
    assert limit_keys(limiters, "mail", None, payload) == '{"mail":"ann"}'
    assert limit_keys(limiters, "call", "slow", payload) == '{"queue":"ann"}'
    assert limit_keys(limiters, "call", None, payload) is None
