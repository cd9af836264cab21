"""The form of a subscription: its fields, and the body of the API that they become."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gnomon.api.http.requests.reading import decoded
from gnomon.api.notify.documents import PutSubscription
from gnomon.dashboard.forms.values import Refusal, line, lines, number, refusal_of
from gnomon.model.errors import GnomonError
from gnomon.model.insight.severity import Severity
from gnomon.notify.subscription import SubscriptionRules, WebhookChannel

Form = Mapping[str, str]

_LISTS = ("kinds", "task_types", "tags", "cron_jobs")
_SECONDS = ("digest_seconds", "resolve_seconds")
_QUIET = ("start", "end", "timezone", "errors_through")
_FIELDS = ("name", "type", "address", "severity", *_LISTS, *_SECONDS, *_QUIET, "all_tenants")
EMPTY = dict.fromkeys((*_FIELDS, "disabled"), "") | {
    "type": "webhook",
    "severity": str(Severity.WARNING),
    "kinds": "*",
    "digest_seconds": "300",
    "resolve_seconds": "900",
    "timezone": "UTC",
}
CHANNELS = {
    "webhook": "Webhook: a signed call",
    "slack": "Chat: Slack, Mattermost and others",
    "email": "E-mail",
    "apprise": "Apprise",
}
# Below which fields the API's mistakes about a channel are told.
_PLACES = {"url": "address", "channel": "address"}


def asked_of(form: Form) -> PutSubscription:
    """What the form asks for. Without an address the channel stays. Raises InvalidTask, with the
    place."""
    values: dict[str, Any] = {name: lines(form[name]) or () for name in _LISTS}
    values |= {name: number(form[name]) for name in _SECONDS if form[name].strip()}
    values |= {"severity": form["severity"], "all_tenants": bool(form["all_tenants"])}
    values["enabled"] = not form["disabled"]
    if (address := line(form["address"])) is not None:
        field = "address" if form["type"] == "email" else "url"
        values["channel"] = {"type": form["type"], field: address}
    if form["start"].strip() or form["end"].strip():
        values["quiet_hours"] = {
            "start": form["start"].strip(),
            "end": form["end"].strip(),
            "timezone": form["timezone"].strip() or "UTC",
            "errors_through": bool(form["errors_through"]),
        }
    return decoded(msgspec.json.encode(values), PutSubscription)


def form_of(rules: SubscriptionRules) -> dict[str, str]:
    """A subscription as its form has it. Its channel may be a secret: it is not among it."""
    form = EMPTY | {name: "\n".join(getattr(rules, name)) for name in _LISTS}
    form |= {name: f"{getattr(rules, name):g}" for name in _SECONDS}
    form |= {"severity": str(rules.severity), "all_tenants": "yes" if rules.all_tenants else ""}
    form["disabled"] = "" if rules.enabled else "yes"
    if (quiet := rules.quiet_hours) is not None:
        form |= {"start": quiet.start, "end": quiet.end, "timezone": quiet.timezone}
        form["errors_through"] = "yes" if quiet.errors_through else ""
    return form


def without_secrets(form: Form) -> dict[str, str]:
    """The form to be shown again: an address that lets others write there is given anew."""
    address = form["address"].strip()
    if form["type"] == "webhook":
        try:
            shown = address if WebhookChannel(address).masked() == address else ""
        except ValueError:
            shown = ""
    else:
        shown = address if form["type"] == "email" else ""
    return {**form, "address": shown}


def refusal_beside(error: GnomonError) -> Refusal:
    """The reasons beside their fields. Raises the error where no other entry would help."""
    status, reasons = refusal_of(error)
    return Refusal(status, {_PLACES.get(name, name): text for name, text in reasons.items()})
