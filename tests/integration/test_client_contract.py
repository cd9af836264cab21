"""The clients have every operation of the OpenAPI document, with its fields, and nothing else."""

import inspect
import typing
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import aiohttp
import msgspec

from gnomon import Client, SyncClient
from gnomon.client.call import Call, Listing
from gnomon.client.operations import CallMethod, ListMethod, Operations

Json = dict[str, Any]

# For monitors; `ready()` asks the second.
MONITORED = {"healthz", "readyz", "metrics", "get_metrics", "get_metrics_of_tenant"}
# Read by `follow_events` and `follow_transitions`.
STREAMS = {"stream_events", "stream_installation_events", "stream_transitions"}
# Spoken by remote workers, and a look at them.
WORKED = {
    "list_worker_sessions",
    "open_worker_session",
    "poll_worker_session",
    "beat_worker_session",
    "drain_worker_session",
    "close_worker_session",
}
# Small bodies are keyword arguments.
OPTIONS = {"idempotency_key", "limit", "cursor"}
# The answer may be text/csv with a format; `follow_events` reads on after a number.
LEFT_OUT = {
    "get_usage": {"format"},
    "get_service_levels": {"format"},
    "list_events": {"after"},
    "list_installation_events": {"after"},
}


def operations(document: Json) -> Iterator[tuple[str, str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] not in MONITORED | STREAMS | WORKED:
                yield operation["operationId"], method.upper(), path, operation


def methods() -> dict[str, CallMethod[..., Any] | ListMethod[..., Any]]:
    found = vars(Operations).items()
    return {name: each for name, each in found if isinstance(each, CallMethod | ListMethod)}


def described(method: CallMethod[..., Any] | ListMethod[..., Any]) -> Call[Any] | Listing[Any]:
    """The call with every argument given."""
    hints = typing.get_type_hints(method.describe)
    parameters = inspect.signature(method.describe).parameters
    return method.describe(**{name: sample(name, hints[name]) for name in parameters})


def sample(name: str, hint: Any) -> Any:
    kinds = [hint, *typing.get_args(hint)]
    if bool in kinds:
        return True
    if any(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in kinds):
        return Named(hint)
    return 1 if int in kinds or float in kinds else f"{{{name}}}"


class Named:
    """Stands for a body of this type."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.idempotency_key = None


def parts(found: Call[Any] | Listing[Any]) -> Call[Any]:
    return found.call() if isinstance(found, Listing) else found


def schema_of(document: Json, schema: Json) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def names_of(kind: Any) -> tuple[set[str], set[str]]:
    """The names of all fields, and of those that are required."""
    fields = msgspec.structs.fields(kind)
    return {f.encode_name for f in fields}, {f.encode_name for f in fields if f.required}


async def document_of(api: aiohttp.ClientSession) -> Json:
    async with api.get("/api/v1/openapi.json") as response:
        document: Json = await response.json()
        return document


async def test_every_operation_is_a_method_of_both_clients(api: aiohttp.ClientSession) -> None:
    served = {name for name, *_ in operations(await document_of(api))}
    assert served == methods().keys()
    assert all(hasattr(client, name) for name in served for client in (Client, SyncClient))


async def test_methods_and_paths_are_those_of_the_document(api: aiohttp.ClientSession) -> None:
    made = methods()
    for name, method, path, _ in operations(await document_of(api)):
        call = parts(described(made[name]))
        sent = call.path.replace("%7B", "{").replace("%7D", "}")
        assert (call.method, f"/api/v1{sent}") == (method, path), name


async def test_queries_and_keys_are_those_of_the_document(api: aiohttp.ClientSession) -> None:
    made = methods()
    for name, _, _, operation in operations(await document_of(api)):
        call = parts(described(made[name]))
        declared = {(each["in"], each["name"].lower()) for each in operation.get("parameters", [])}
        query = {each for place, each in declared if place == "query"}
        assert call.query.keys() == query - LEFT_OUT.get(name, set()), name
        assert call.keyed == (("header", "idempotency-key") in declared), name


async def test_bodies_are_those_of_the_document(api: aiohttp.ClientSession) -> None:
    made, document = methods(), await document_of(api)
    for name, _, _, operation in operations(document):
        body = parts(described(made[name])).body
        if "requestBody" not in operation:
            assert body is msgspec.UNSET, name
            continue
        schema = schema_of(
            document, operation["requestBody"]["content"]["application/json"]["schema"]
        )
        properties, required = set(schema["properties"]), set(schema.get("required", ()))
        if isinstance(body, Named):
            fields, needed = names_of(body.kind)
            # The name of a job that is put stands in the path, too.
            assert (fields, needed - {"name"}) == (properties, required - {"name"}), name
        elif body is msgspec.UNSET:
            assert not properties, name
        else:
            assert body.keys() == properties, name


async def test_answers_are_those_of_the_document(api: aiohttp.ClientSession) -> None:
    made, document = methods(), await document_of(api)
    for name, _, _, operation in operations(document):
        found = described(made[name])
        content = next(v for k, v in operation["responses"].items() if k.startswith("2"))
        if "content" not in content:
            assert isinstance(found, Call), name
            assert found.answer is None, name
            continue
        schema = schema_of(document, content["content"]["application/json"]["schema"])
        alternatives = [schema_of(document, each) for each in schema.get("anyOf", [schema])]
        check_answer(document, name, found, alternatives)


def check_answer(
    document: Json, name: str, found: Call[Any] | Listing[Any], schemas: list[Json]
) -> None:
    first, *others = schemas
    kind = found.item if isinstance(found, Listing) else found.answer
    if found.member is not None:
        first = schema_of(document, first["properties"][found.member]["items"])
        kind = kind if isinstance(found, Listing) else typing.get_args(kind)[0]
    if kind is UUID:
        assert first["format"] == "uuid", name
        return
    check_struct(document, name, kind, first)
    receipt = None if isinstance(found, Listing) else found.receipt
    assert len(others) == (receipt is not None), name
    if receipt is not None:
        check_struct(document, name, receipt, others[0])


def check_struct(document: Json, place: str, kind: Any, schema: Json) -> None:
    """Every member of the answer has a field; a field that is required is always there."""
    fields, required = names_of(kind)
    properties = set(schema["properties"])
    optional = {f.encode_name for f in msgspec.structs.fields(kind) if not f.required}
    assert properties <= fields, (place, kind)
    assert fields - optional <= properties, (place, kind)
    assert required <= set(schema.get("required", ())), (place, kind)
    for field in msgspec.structs.fields(kind):
        for nested, part in nested_structs(document, field, schema["properties"]):
            check_struct(document, f"{place}.{field.name}", nested, part)


def nested_structs(
    document: Json, field: msgspec.structs.FieldInfo, properties: Json
) -> Iterator[tuple[Any, Json]]:
    kinds = [k for k in (field.type, *typing.get_args(field.type)) if is_own(k)]
    schema = properties.get(field.encode_name, {})
    schema = next((each for each in schema.get("anyOf", ()) if "$ref" in each), schema)
    schema = schema.get("items", schema.get("additionalProperties", schema))
    for kind in kinds:
        yield kind, schema_of(document, schema)


def is_own(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.startswith("gnomon.client.types")


def test_both_clients_take_the_same_arguments() -> None:
    names = {name for name, each in vars(Client).items() if callable(each) and name[0] != "_"}
    assert names == {
        name for name, each in vars(SyncClient).items() if callable(each) and name[0] != "_"
    }
    for name in (*names - {"listed"}, "__init__"):
        one, other = getattr(Client, name), getattr(SyncClient, name)
        # Not their types: one takes async iterables, too.
        taken = [
            [
                (each.name, each.kind, each.default)
                for each in inspect.signature(f).parameters.values()
            ]
            for f in (one, other)
        ]
        assert taken[0] == taken[1], name
    sync, client = SyncClient("http://127.0.0.1:1"), Client("http://127.0.0.1:1")
    for name in methods():
        assert inspect.signature(getattr(client, name)) == inspect.signature(getattr(sync, name))
        assert getattr(client, name).__doc__


def test_ids_may_be_text_or_uuid() -> None:
    text = "019a0000-0000-7000-8000-000000000000"
    made = methods()["get_task"]
    assert made.describe(UUID(text)) == made.describe(text)
