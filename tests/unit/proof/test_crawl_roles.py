"""The crawl notices an operation that is given to a key without its role."""

import pytest
from proof.crawl.roles import Key, fault, roles_of

from gnomon.access.principal import Role

READER = Key("read", "k", frozenset([Role.READ]))
ADMIN = Key("admin", "k", frozenset([Role.ADMIN]))
REVOKED = Key("revoked", "k", frozenset())
LIMITED = Key("limited", "k", frozenset([Role.SUBMIT]), "mail")


@pytest.mark.parametrize(
    ("key", "role", "status", "text"),
    [
        (READER, Role.SUBMIT, 202, ""),
        (READER, Role.ADMIN, 404, ""),  # it was looked for
        (READER, Role.ADMIN, 422, ""),  # it was read
        (READER, Role.SUBMIT, 401, ""),
        (REVOKED, Role.READ, 200, ""),
        (REVOKED, Role.READ, 403, ""),
        (REVOKED, Role.READ, 404, ""),
        (ADMIN, Role.READ, 403, ""),
        (READER, Role.READ, 401, ""),
        (LIMITED, Role.SUBMIT, 202, '{"task_type":"other"}'),
        (LIMITED, Role.READ, 200, ""),
    ],
)
def test_what_is_wrong(key: Key, role: Role, status: int, text: str) -> None:
    assert fault(key, role, status, text, plain=True) is not None


@pytest.mark.parametrize(
    ("key", "role", "status", "text"),
    [
        (READER, Role.READ, 200, '{"task_type":"other"}'),
        (READER, Role.READ, 404, ""),
        (READER, Role.SUBMIT, 403, ""),
        (ADMIN, Role.SUBMIT, 202, ""),
        (REVOKED, Role.READ, 401, ""),
        (REVOKED, None, 200, ""),
        (LIMITED, Role.SUBMIT, 202, '{"task_type":"mail"}'),
        (LIMITED, Role.SUBMIT, 403, ""),
    ],
)
def test_what_is_right(key: Key, role: Role | None, status: int, text: str) -> None:
    assert fault(key, role, status, text, plain=True) is None


def test_a_path_that_leads_elsewhere_must_only_not_succeed() -> None:
    assert fault(REVOKED, Role.READ, 404, "", plain=False) is None
    assert fault(REVOKED, Role.READ, 200, "", plain=False) is not None


def test_roles_come_from_the_document() -> None:
    document = {
        "paths": {
            "/a": {"get": {"security": [{"key": ["read"]}]}, "post": {"security": []}},
            "/b": {"get": {}},
        }
    }
    assert roles_of(document) == {"GET /a": Role.READ, "POST /a": None, "GET /b": None}
