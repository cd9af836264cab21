"""Workflows: definitions that are kept under a name, in versions."""

import hashlib
import json
from typing import Any

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.meaning import meaning_of
from gnomon.model.targets.target_secrets import masked_headers, masked_url
from gnomon.store.ports.work.workflows import WorkflowVersion
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows.runs import check_definition
from gnomon.usecases.workflows.workflow_requests import WorkflowDefinition

_definition = msgspec.json.Decoder(WorkflowDefinition)


async def put(
    store: PostgresWorkflows,
    rules: TenantRules,
    by: Principal,
    asked: WorkflowDefinition,
    body: bytes,
) -> tuple[WorkflowVersion, bool]:
    """Stores a definition as the next version of its workflow; gives also whether it is new: the
    same one again is the same version. Raises InvalidTask, with the place, TooManyWorkflows."""
    if asked.name is None:
        raise InvalidTask("is missing: it is what the workflow is run by", "/name")
    check_definition(rules, by, asked)
    text = json.dumps(meaning_of(body), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    return await store.put(by.tenant_id, asked.name, body, digest, by.name, rules.clock.now())


def definition_of(workflow: WorkflowVersion) -> WorkflowDefinition:
    """The definition, to be run."""
    return definition_in(workflow.definition)


def definition_in(text: bytes) -> WorkflowDefinition:
    """A definition as it was stored."""
    return _definition.decode(text)


def masked(definition: bytes) -> bytes:
    """A definition as anybody may see it: without the secrets of its webhooks."""
    found: dict[str, Any] = msgspec.json.decode(definition)
    for node in found["nodes"].values():
        _mask(node)
        if isinstance(node.get("compensate"), dict):
            _mask(node["compensate"])
    return msgspec.json.encode(found)


def _mask(task: dict[str, Any]) -> None:
    target = task.get("target")
    if isinstance(target, dict) and "url" in target:
        target["url"] = masked_url(target["url"])
        if "headers" in target:
            target["headers"] = dict(masked_headers(target["headers"]))
    if isinstance(task.get("callback_url"), str):
        task["callback_url"] = masked_url(task["callback_url"])
