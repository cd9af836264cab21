"""Whose call it is: nodes sign with the secrets of the tenant, as the official library sees it."""

import asyncio
import base64
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import structlog
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook
from tests.integration.identity import make_tenant
from tests.integration.nodes import SECRET, Call, Receiver, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, store
from tests.integration.webhook_calls import (
    create,
    create_pair,
    id_now,
    rotate,
    secret_of,
    signed_by,
    verifies,
)
from tests.waiting import eventually

from gnomon.access.secret_errors import LastSecret, SecretEnded, SecretNotFound, TooManySecrets
from gnomon.access.webhook_secret import (
    MOST_ENDED,
    MOST_LIVE,
    MOST_TOGETHER,
    content_of,
    public_bytes,
)
from gnomon.clock import SystemClock
from gnomon.model.errors import StatementRefused, StoreError, StoreUnavailable, TenantNotFound
from gnomon.node.run.targets.signing import Signatory, Unsigned
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets, give_default
from gnomon.store.tenant_cache import Revision, TenantCache
from gnomon.wiring.processes import prepare


@pytest.fixture
async def receiver(connection: Connection) -> AsyncIterator[Receiver]:
    async with receiver_on(lambda: database_now(connection)) as started:
        yield started


@pytest.fixture
async def node(database_dsn: str) -> AsyncIterator[None]:
    async with running_node(database_dsn):
        yield


async def called(
    database: Database,
    connection: Connection,
    receiver: Receiver,
    tenant_id: str = "default",
    payload: bytes | None = b'{"n":1}',
    method: str = "POST",
) -> Call:
    """The call of a task of that tenant."""
    new = webhook(
        await database_now(connection),
        receiver,
        tenant_id=tenant_id,
        payload=payload,
        method=method,
    )
    await store(database, new)

    async def arrived() -> Call | None:
        found = [c for c in receiver.calls if c.headers["webhook-id"] == str(new.id)]
        return found[0] if found else None

    return await eventually(arrived)


async def test_a_call_of_another_tenant_is_rejected(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    for tenant in ("acme", "beta"):
        await make_tenant(database, tenant)
    secrets = {name: await secret_of(connection, name) for name in ("acme", "beta", "default")}
    assert len(set(secrets.values())) == 3
    assert secrets["default"] == SECRET  # of the settings, and nobody else's
    for name in secrets:
        call = await called(database, connection, receiver, name)
        assert call.headers["gnomon-tenant"] == name
        assert signed_by(call, secrets) == {name}


async def test_the_first_call_of_a_tenant_made_a_moment_ago_is_signed(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    for number in range(10):
        name = await make_tenant(database, f"new-{number}")
        call = await called(database, connection, receiver, name)
        assert verifies(await secret_of(connection, name), call)


async def test_calls_of_a_tenant_that_only_plain_sql_knows_are_not_signed(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    call = await called(database, connection, receiver, "made\r\nup: yes")
    assert "webhook-signature" not in call.headers
    assert call.headers["gnomon-tenant"] == "made%0D%0Aup%3A%20yes"
    assert "up" not in call.headers


async def test_a_hosts_secret_wins_and_ends_with_its_revocation(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    host = str(urlsplit(receiver.url).hostname)
    own = await create(database, host=host)
    shared = await create(database, host="other.example")
    secrets = {"tenant": SECRET, "own": str(own.value), "other": str(shared.value)}

    async def signers() -> set[str]:
        return signed_by(await called(database, connection, receiver), secrets)

    async def own_alone() -> bool:
        return await signers() == {"own"}

    await eventually(own_alone)
    await PostgresSecrets(database).revoke("default", own.known.id)

    async def tenants_again() -> bool:
        return await signers() == {"tenant"}

    await eventually(tenants_again)


async def test_a_call_without_a_body_verifies(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    for method in ("POST", "PUT", "PATCH"):
        call = await called(database, connection, receiver, payload=None, method=method)
        assert call.method == method
        # As the library is called by whoever has read no further than its first example.
        assert Webhook(SECRET).verify(call.body, dict(call.headers)) is None
    for method in ("GET", "DELETE"):
        call = await called(database, connection, receiver, payload=None, method=method)
        assert (call.method, call.body) == (method, b"")
        Webhook(SECRET).verify(call.body, dict(call.headers), json_parse=False)


async def test_ed25519_beside_hmac(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    await make_tenant(database, "acme")
    secret = await secret_of(connection, "acme")
    pair = await create_pair(database, "acme")
    assert pair.value is None
    assert pair.known.public_key is not None
    key = Ed25519PublicKey.from_public_bytes(public_bytes(pair.known.public_key))

    async def twice_signed() -> Call | None:
        call = await called(database, connection, receiver, "acme", payload='{"n":"ü"}'.encode())
        return call if " " in call.headers["webhook-signature"] else None

    call = await eventually(twice_signed)
    assert verifies(secret, call)
    given = dict(each.split(",") for each in call.headers["webhook-signature"].split(" "))
    assert given.keys() == {"v1", "v1a"}
    message = (call.headers["webhook-id"], call.headers["webhook-timestamp"])
    signature = base64.b64decode(given["v1a"])
    key.verify(signature, content_of(*message, call.body))
    with pytest.raises(InvalidSignature):
        key.verify(signature, content_of(*message, call.body + b" "))


async def test_a_secret_written_wrongly_by_hand_stops_nothing(
    node: None, database: Database, connection: Connection, receiver: Receiver
) -> None:
    written = "INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret) VALUES "
    await connection.execute(
        f"{written} ($1, 'default', 'v1', 'oops'), ($2, 'default', 'v9', 'whsec_')",
        id_now(),
        id_now(),
    )
    for _ in range(3):
        assert verifies(SECRET, await called(database, connection, receiver))


@pytest.fixture
async def directory(database: Database) -> TenantCache:
    store = PostgresTenantReader(database, with_secrets=True)
    return TenantCache(store, SystemClock(), {})


async def test_a_look_at_the_directory_is_all_that_a_revocation_takes(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    """So it takes half a second, the time between two looks, and a statement or two."""
    await prepare_default(connection)
    secrets = PostgresSecrets(database)
    (first,) = await secrets.list("default")
    second = await rotate(database, first.id, 3600.0)
    await directory.load()
    signatory = Signatory(directory, SystemClock())

    def count() -> int:
        made = signatory.sign("default", "https://a.example/", "id", "1", b"{}")
        return len((made or "").split())

    assert count() == 2
    await secrets.revoke("default", first.id)
    assert count() == 2
    await directory.load()
    assert count() == 1
    shown = [await secrets.show("default", each) for each in (first.id, second.known.id)]
    assert [each.value for each in shown] == [None, second.value]
    kept = await connection.fetch("SELECT secret FROM gnomon.webhook_secret ORDER BY secret")
    assert [row["secret"] for row in kept] == ["", second.value]


async def prepare_default(connection: Connection, given: str | None = None) -> bool | None:
    return await give_default(connection, id_now(), given)


async def test_an_old_secret_ends_by_itself(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    await prepare_default(connection)
    (first,) = await PostgresSecrets(database).list("default")
    await rotate(database, first.id, 0.3)
    clock = SystemClock()
    signatory = Signatory(directory, clock)
    await directory.load()

    async def ended() -> bool:
        made = signatory.sign("default", "https://a.example/", "id", "1", b"")
        return " " not in str(made)

    await eventually(ended)  # nobody looks at the directory meanwhile


async def test_many_hosts_do_not_fill_the_memory(
    connection: Connection, directory: TenantCache
) -> None:
    await prepare_default(connection)
    await directory.load()
    signatory = Signatory(directory, SystemClock())
    for number in range(10_100):
        signatory.sign("default", f"https://h{number}.example/", "id", "1", b"")
    assert len(signatory._choices) <= 10_000


async def test_all_who_ask_at_once_share_a_look(connection: Connection, database: Database) -> None:
    class Counted(PostgresTenantReader):
        looks = 0

        async def revision(self) -> Revision:
            self.looks += 1
            return await super().revision()

    store = Counted(database, with_secrets=True)
    directory = TenantCache(store, SystemClock(), {})
    await directory.load()
    signatory = Signatory(directory, SystemClock())
    store.looks = 0
    await all_ready(signatory, [f"nobody-{n}" for n in range(100)])
    assert 1 <= store.looks <= 2
    await make_tenant(database, "acme")
    await all_ready(signatory, ["acme"] * 100)
    assert signatory.sign("acme", "https://a.example/", "id", "1", b"") is not None
    assert signatory.knows("acme")


async def all_ready(signatory: Signatory, tenants: list[str]) -> None:
    unknown = [each for each in tenants if not signatory.knows(each)]
    await asyncio.gather(*map(signatory.learn, unknown))


async def test_nothing_goes_out_unsigned_because_nobody_looked(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    await directory.load()
    signatory = Signatory(directory, SystemClock())
    await make_tenant(database, "acme")
    for tenant in ("acme", "nobody"):
        with pytest.raises(Unsigned):
            signatory.sign(tenant, "https://a.example/", "id", "1", b"")
    await all_ready(signatory, ["nobody"])
    assert signatory.sign("nobody", "https://a.example/", "id", "1", b"") is None
    assert signatory.sign("acme", "https://a.example/", "id", "1", b"") is not None
    # Nor because what there is cannot be used.
    await connection.execute("UPDATE gnomon.webhook_secret SET secret = 'whsec_oops'")
    await directory.load()
    with pytest.raises(Unsigned):
        signatory.sign("acme", "https://a.example/", "id", "1", b"")


async def test_a_tenant_that_has_lost_its_secrets_is_not_called_unsigned(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    signatory = Signatory(directory, SystemClock())
    await all_ready(signatory, ["acme"])
    assert signatory.sign("acme", "https://a.example/", "id", "1", b"") is None
    await make_tenant(database, "acme")
    await connection.execute("DELETE FROM gnomon.webhook_secret")
    for _ in range(2):
        await all_ready(signatory, ["acme"])
        with pytest.raises(Unsigned):
            signatory.sign("acme", "https://a.example/", "id", "1", b"")


async def test_what_was_learned_of_a_tenant_outlives_the_changes_of_others(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    signatory = Signatory(directory, SystemClock())
    await all_ready(signatory, ["nobody"])
    await make_tenant(database, "acme")
    await directory.load()
    assert signatory.sign("nobody", "https://a.example/", "id", "1", b"") is None


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StatementRefused("no", "42501")])
async def test_an_outage_is_waited_for_by_all_who_ask(
    database: Database, error: StoreError
) -> None:
    class Away(PostgresTenantReader):
        times = 3

        async def revision(self) -> Revision:
            if self.times:
                self.times -= 1
                raise error
            return await super().revision()

    store = Away(database, with_secrets=True)
    signatory = Signatory(TenantCache(store, SystemClock(), {}), SystemClock())
    await make_tenant(database, "acme")
    await all_ready(signatory, ["acme", "acme", "nobody", "acme"])
    assert signatory.sign("acme", "https://a.example/", "id", "1", b"") is not None
    assert signatory.sign("nobody", "https://a.example/", "id", "1", b"") is None


async def test_a_look_that_fails_is_nobodys_answer(database: Database) -> None:
    """Those who waited for the look of another must not take its failure for knowledge."""

    class Failing(PostgresTenantReader):
        failures = 0

        async def revision(self) -> Revision:
            await asyncio.sleep(0)
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("away")
            return await super().revision()

    store = Failing(database, with_secrets=True)
    directory = TenantCache(store, SystemClock(), {})
    await directory.load()
    await make_tenant(database, "acme")
    store.failures = 1
    looks = [directory.look_again() for _ in range(3)]
    done = await asyncio.gather(*looks, return_exceptions=True)
    assert [isinstance(each, StoreUnavailable) for each in done] == [True, False, False]
    assert directory.secrets("acme")


async def test_of_many_processes_that_start_at_once_one_makes_the_secret(
    database_dsn: str, connection: Connection
) -> None:
    with structlog.testing.capture_logs() as logs:
        await asyncio.gather(*(prepare(database_dsn, SECRET) for _ in range(6)))
    assert await secret_of(connection, "default") == SECRET
    assert [each["event"] for each in logs] == [
        "the setting targets.webhook_secret is now the first secret of the tenant default"
    ]


async def test_a_setting_that_is_not_used_is_told_of(
    database_dsn: str, connection: Connection
) -> None:
    await prepare(database_dsn)
    made = await secret_of(connection, "default")
    with structlog.testing.capture_logs() as logs:
        await prepare(database_dsn, SECRET)
        await prepare(database_dsn, made)
    (warning,) = logs
    assert warning["log_level"] == "warning"
    assert "is not used" in warning["event"]
    assert await secret_of(connection, "default") == made


async def test_the_last_one_can_be_replaced_but_not_revoked(
    database: Database, connection: Connection
) -> None:
    secrets = PostgresSecrets(database)
    await make_tenant(database, "acme")
    (first,) = await secrets.list("acme")
    await create(database, "acme", host="a.example")
    with pytest.raises(LastSecret, match="overlap of 0"):
        await secrets.revoke("acme", first.id)
    second = await rotate(database, first.id, 3600.0, "acme")
    with pytest.raises(LastSecret):  # the first one ends by itself
        await secrets.revoke("acme", second.known.id)
    with pytest.raises(SecretEnded):
        await rotate(database, first.id, 0.0, "acme")
    third = await rotate(database, second.known.id, 0.0, "acme")
    await secrets.revoke("acme", second.known.id)  # has ended: stays as it is
    await secrets.revoke("acme", first.id)
    listed = {each.id: each for each in await secrets.list("acme")}
    assert listed[second.known.id].revoked_at is None
    assert listed[first.id].revoked_at is not None
    assert (await secrets.show("acme", second.known.id)).value is None
    assert (await secrets.show("acme", third.known.id)).value == third.value


async def test_two_who_revoke_at_once_leave_one(database: Database) -> None:
    secrets = PostgresSecrets(database)
    for number in range(10):
        tenant = await make_tenant(database, f"t{number}")
        (first,) = await secrets.list(tenant)
        second = await create(database, tenant)
        ids = (first.id, second.known.id)
        done = await asyncio.gather(
            *(secrets.revoke(tenant, each) for each in ids), return_exceptions=True
        )
        assert [isinstance(each, LastSecret) for each in done].count(True) == 1
        assert done.count(None) == 1


async def test_two_who_rotate_at_once_make_one(database: Database) -> None:
    secrets = PostgresSecrets(database)
    await make_tenant(database, "acme")
    (first,) = await secrets.list("acme")
    done = await asyncio.gather(
        *(rotate(database, first.id, 60.0, "acme") for _ in range(5)), return_exceptions=True
    )
    assert [isinstance(each, SecretEnded) for each in done].count(True) == 4
    assert len(await secrets.list("acme")) == 2


async def test_a_tenant_has_so_many_and_no_more(database: Database) -> None:
    await make_tenant(database, "acme")
    for _ in range(MOST_TOGETHER - 1):
        await create(database, "acme")
    with pytest.raises(TooManySecrets, match=r"calls of the tenant itself, .*revoke one"):
        await create(database, "acme")
    for _ in range(MOST_TOGETHER):
        await create(database, "acme", host="h.example")
    with pytest.raises(TooManySecrets, match=r"calls of h\.example, .*revoke one"):
        await create(database, "acme", host="h.example")
    for number in range(MOST_LIVE - 2 * MOST_TOGETHER):
        await create(database, "acme", host=f"h{number}.example")
    with pytest.raises(TooManySecrets, match=f"{MOST_LIVE} webhook secrets"):
        await create(database, "acme", host="one-more.example")
    await make_tenant(database, "beta")
    await create(database, "beta")  # the others' are not counted


async def test_each_of_several_is_shown_with_its_own_value(database: Database) -> None:
    await make_tenant(database, "acme")
    made = [await create(database, "acme", host=host) for host in (None, "h.example", None)]
    secrets = PostgresSecrets(database)
    for each in made:
        assert await secrets.show("acme", each.known.id) == each
    assert len({each.value for each in made}) == 3


async def test_only_a_hosts_secret_has_a_time_in_which_the_tenants_own_sign_beside_it(
    database: Database,
) -> None:
    await make_tenant(database, "acme")
    own, of_host = await create(database, "acme"), await create(database, "acme", host="h.example")
    assert own.known.shared_until is None
    for made, shared in ((own, False), (of_host, True)):
        newer = await rotate(database, made.known.id, 60.0, "acme")
        assert (newer.known.shared_until is not None) is shared


async def test_ended_ones_do_not_pile_up(database: Database, connection: Connection) -> None:
    await make_tenant(database, "acme")
    secrets = PostgresSecrets(database)
    await connection.execute(
        """
        INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret, created_at, revoked_at)
        SELECT gen_random_uuid(), 'acme', 'v1', '', to_timestamp(n), now()
        FROM generate_series(1, 500) AS n
        """
    )
    await create(database, "acme")
    listed = await secrets.list("acme")
    assert sum(each.revoked_at is not None for each in listed) == MOST_ENDED
    assert len(listed) == MOST_ENDED + 2
    await create(database, "acme")
    assert len(await secrets.list("acme")) == MOST_ENDED + 3


async def test_what_is_anothers_is_not_there(database: Database) -> None:
    await make_tenant(database, "acme")
    await make_tenant(database, "beta")
    secrets = PostgresSecrets(database)
    (theirs,) = await secrets.list("beta")
    for act in (secrets.show, secrets.get, secrets.revoke):
        with pytest.raises(SecretNotFound):
            await act("acme", theirs.id)
    with pytest.raises(SecretNotFound):
        await rotate(database, theirs.id, 0.0, "acme")
    with pytest.raises(TenantNotFound):
        await create(database, "nobody")


async def test_a_tenant_goes_with_its_secrets_and_comes_back_with_others(
    database: Database, connection: Connection, directory: TenantCache
) -> None:
    await make_tenant(database, "acme")
    first = await secret_of(connection, "acme")
    await directory.load()
    await connection.execute("DELETE FROM gnomon.tenant WHERE id = 'acme'")
    await directory.load()
    assert directory.secrets("acme") == ()
    await make_tenant(database, "acme")
    assert await secret_of(connection, "acme") != first
