"""Refuses targets that can be seen not to be public before they are called."""

from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from gnomon.api.cron_schemas import PatchCronJob, PutCronJob
from gnomon.api.schemas import PatchTask, SubmitTask
from gnomon.model.addresses import AddressGuard
from gnomon.model.errors import InvalidTask
from gnomon.model.target import HttpTarget
from gnomon.settings import Settings


def check_target(
    settings: Settings, asked: SubmitTask | PatchTask | PutCronJob | PatchCronJob
) -> None:
    """Raises InvalidTask, with the place. Only where there is authentication: else whoever can ask
    is on this machine already. A name is judged when it is called, by what it leads to then."""
    if not settings.authentication:
        return
    if isinstance(asked.target, HttpTarget):
        _check(settings, asked.target.url, "/target/url")
    if not isinstance(asked.callback_url, msgspec.UnsetType) and asked.callback_url is not None:
        _check(settings, asked.callback_url, "/callback_url")


def _check(settings: Settings, url: str, pointer: str) -> None:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return  # that it is no URL is said elsewhere
    if host is not None and _guard(settings.targets_allow).refuses_host(host):
        detail = f"{host} is not a public address; webhooks reach others only in targets_allow"
        raise InvalidTask(detail, pointer)


@lru_cache(maxsize=16)
def _guard(allow: tuple[str, ...]) -> AddressGuard:
    return AddressGuard(allow)
