"""Refuses targets that can be seen not to be public before they are called."""

from urllib.parse import urlsplit

import msgspec

from gnomon.api.cron_schemas import PatchCronJob, PutCronJob
from gnomon.api.schemas import PatchTask, SubmitTask
from gnomon.model.addresses import AddressGuard
from gnomon.model.errors import InvalidTask
from gnomon.model.target import HttpTarget


def check_target(
    guard: AddressGuard | None, asked: SubmitTask | PatchTask | PutCronJob | PatchCronJob
) -> None:
    """Raises InvalidTask, with the place. No guard is where there is no authentication: whoever can
    ask is on this machine already. A name is judged when it is called, by what it leads to then."""
    if guard is None:
        return
    if isinstance(asked.target, HttpTarget):
        _check(guard, asked.target.url, "/target/url")
    if not isinstance(asked.callback_url, msgspec.UnsetType) and asked.callback_url is not None:
        _check(guard, asked.callback_url, "/callback_url")


def _check(guard: AddressGuard, url: str, pointer: str) -> None:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return  # that it is no URL is said elsewhere
    if host is not None and guard.refuses_host(host):
        detail = f"{host} is not a public address; webhooks reach others only in targets_allow"
        raise InvalidTask(detail, pointer)
