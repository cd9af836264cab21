"""The OpenAPI document, generated from the operations of the handlers.

The types in an Operation are those that decode its requests and encode its answers, so the document
cannot drift from what is served.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from threading import Lock
from typing import Any

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from gnomon.api.http.answers.problems import MEDIA_TYPE, TITLES, Problem
from gnomon.api.http.document.component_schemas import described, reference, tidy
from gnomon.api.http.document.operation import JSON, Operation, operation_of

_REF = "#/components/schemas/{name}"
_SCHEME = "key"
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, or a token (JWT), where the server asks for one",
}


_PACE = {
    name: {"description": description, "schema": {"type": "string"}}
    for name, description in (
        ("RateLimit-Policy", "The quota of submissions in any second, where the tenant has one"),
        ("RateLimit", "What is left of it"),
    )
}


def made_once(make: Callable[[], bytes]) -> Callable[[], bytes]:
    """When it is first asked for, since few processes are. Threads that ask meanwhile wait."""
    lock, made = Lock(), cache(make)

    def get() -> bytes:
        with lock:
            return made()

    return get


def document(app: Litestar, version: str) -> bytes:
    operations = sorted(_operations(app), key=lambda found: found[:2])
    # A mapping for its order: the same document from every process.
    types = dict.fromkeys([Problem, *_types(operation for _, _, operation in operations)])
    schemas, found = msgspec.json.schema_components(types, ref_template=_REF)
    for _, _, operation in operations:
        found |= _of_query(operation)
    components = tidy(found) | _receipts(operation for _, _, operation in operations)
    references = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for path, method, operation in operations:
        paths.setdefault(path, {})[method] = _operation(path, operation, references)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Gnomon", "version": version, "license": {"name": "Apache-2.0"}},
            "servers": [{"url": "/"}],
            "paths": paths,
            "components": {"schemas": components, "securitySchemes": {_SCHEME: _BEARER}},
        }
    )


def _operations(app: Litestar) -> Iterator[tuple[str, str, Operation]]:
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        for handler in route.route_handlers:
            operation = operation_of(handler)
            if operation is not None:
                method = min(method.lower() for method in handler.http_methods)  # not head
                yield route.path_format.replace(":str}", "}"), method, operation


def _types(operations: Iterator[Operation]) -> Iterator[type]:
    for operation in operations:
        yield from (kind for kind in operation.answers.values() if kind is not None)
        if operation.body is not None:
            yield operation.body
        if operation.receipt is not None:
            yield operation.receipt


def _receipts(operations: Iterator[Operation]) -> dict[str, Any]:
    """The answers that are another one to callers who may not read, by name."""
    return {
        _or_receipt(kind): {
            "title": _or_receipt(kind),
            "description": "The answer, or the receipt for callers who may not read",
            "anyOf": [reference(kind.__name__), reference(operation.receipt.__name__)],
        }
        for operation in operations
        if operation.receipt is not None
        for kind in operation.answers.values()
        if kind is not None
    }


def _or_receipt(kind: type) -> str:
    return f"{kind.__name__}OrReceipt"


def _operation(path: str, operation: Operation, refs: Mapping[type, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_parameters(path, operation)],
        "responses": {
            **{str(status): _answer(status, kind, operation, refs)
               for status, kind in operation.answers.items()},
            **{str(status): _error(status, refs) for status in operation.statuses},
        },
    }  # fmt: skip
    if operation.role is not None:
        found["security"] = [{_SCHEME: [operation.role]}]
    if operation.body is not None:
        found["requestBody"] = {
            "required": operation.body_required,
            "content": {JSON: {"schema": refs[operation.body]}},
        }
    return found


def _answer(
    status: int, kind: type | None, operation: Operation, refs: Mapping[type, Any]
) -> dict[str, Any]:
    if status == 204:
        return {"description": "Done"}
    schema = {"type": "string"} if kind is None else refs[kind]
    if operation.receipt is not None and kind is not None:
        schema = reference(_or_receipt(kind))
    found: dict[str, Any] = {
        "description": (kind.__doc__ or "").strip() if kind is not None else "The page",
        "content": {operation.media_type: {"schema": schema}},
    }
    if operation.also is not None:
        found["content"][operation.also] = {"schema": {"type": "string"}}
    headers: dict[str, Any] = {}
    if operation.keyed:
        headers["Idempotency-Replayed"] = {
            "description": "true where this is the answer to an earlier request",
            "schema": {"type": "string", "const": "true"},
        }
    if operation.paced:
        headers |= _PACE
    return found | {"headers": headers} if headers else found


def _error(status: int, refs: Mapping[type, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": TITLES[status][1],
        "content": {MEDIA_TYPE: {"schema": refs[Problem]}},
    }
    if status == 401:
        found["headers"] = {
            "WWW-Authenticate": {"description": "What to send", "schema": {"type": "string"}}
        }
    if status in (429, 503):
        found["headers"] = {
            "Retry-After": {"description": "Seconds to wait", "schema": {"type": "string"}}
        }
    if status == 429:
        found["headers"] |= _PACE
    return found


_IDS = (
    "task_id", "operation_id", "event_id", "key_id", "secret_id", "notification_id", "session_id",
    "run_id", "batch_id",
)  # fmt: skip


def _parameters(path: str, operation: Operation) -> Iterator[dict[str, Any]]:
    for name in _IDS:
        if f"{{{name}}}" in path:
            schema = {"type": "string", "format": "uuid"}
            yield {"name": name, "in": "path", "required": True, "schema": schema}
    if "{ref}" in path:
        yield {
            "name": "ref",
            "in": "path",
            "required": True,
            "description": "The name of the cron job, or its id",
            "schema": {"type": "string"},
        }
    for name in ("name", "tenant_id", "node"):
        if f"{{{name}}}" in path:
            yield {
                "name": name,
                "in": "path",
                "required": True,
                "description": "Percent-encoded: a slash in it is sent as %2F",
                "schema": {"type": "string"},
            }
    if operation.query is not None:
        _, whole = msgspec.json.schema_components([operation.query], ref_template=_REF)
        for name, schema in whole[operation.query.__name__]["properties"].items():
            yield {"name": name, "in": "query", "schema": described(_not_null(schema))}
    if operation.secret is not None:
        yield {
            "name": operation.secret,
            "in": "header",
            "required": True,
            "description": "The secret that was given to whoever made it",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        }
    if operation.keyed:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Repeat a request under its key to be sure that it takes effect once",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        }


def _of_query(operation: Operation) -> dict[str, Any]:
    """The components that its parameters refer to."""
    if operation.query is None:
        return {}
    _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    name = operation.query.__name__
    return {each: schema for each, schema in components.items() if each != name}


def _not_null(schema: Any) -> Any:
    """Without null: a parameter that is not needed is left out."""
    if "anyOf" not in schema:
        return schema
    (only,) = (each for each in schema["anyOf"] if each.get("type") != "null")
    return only
