"""What keyed limiters find in payloads."""

import pytest

from gnomon.model.limit import Limiter, limit_keys

EACH = Limiter(tenant_id="t", name="each", key="/who", concurrency=1)


@pytest.mark.parametrize(
    "payload",
    [b'{"who": 1e999}', b'{"who": "ann", "n": -1e400}', b'{"who": %s}' % (b"9" * 5000),
     b"[" * 3000 + b"]" * 3000],
)  # fmt: skip
def test_what_cannot_be_read_is_limited_with_what_has_no_value(payload: bytes) -> None:
    """It is stored together with the tasks of others, who must not fail with it."""
    assert limit_keys([EACH], "mail", None, payload) == '{"each":""}'
