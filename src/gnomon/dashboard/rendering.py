"""Templates to pages: escaped, under a strict policy, with nothing from other hosts."""

import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar.response.base import ASGIResponse
from markupsafe import Markup, escape

from gnomon.access.principal import Operator, Principal, Requester, Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.answers.page_reads import OPEN_EVENTS, is_fragment
from gnomon.dashboard.drawing.gantt import gantt
from gnomon.dashboard.drawing.shard_map import shard_map
from gnomon.dashboard.drawing.state_diagram import state_diagram
from gnomon.dashboard.navigation import shown_groups
from gnomon.dashboard.text import words
from gnomon.dashboard.text.quota_rows import quota_label, quota_text
from gnomon.dashboard.text.workflow_words import run_status

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Without a referrer, browsers tell no origin with a form either, and it would be refused.
POLICIES = {"content-security-policy": POLICY, "referrer-policy": "same-origin"}
HEADERS = {"content-type": "text/html; charset=utf-8", **POLICIES}

# Characters that hide, or turn the text around them: shown by their numbers.
HIDDEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]"
)


def literal(value: object) -> object:
    """Text of others, with what hides in it made visible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", value)
    return value


def typed(text: str) -> Markup:
    """Text of others in a field of a form: it is what the field holds, so nothing of it is changed;
    but what hides or turns text around stands in the page by its number."""
    shown = HIDDEN.sub(lambda found: f"&#{ord(found[0])};", str(escape(text)))
    return Markup(shown)  # noqa: S704 - it is escaped


@cache
def static_url(name: str) -> str:
    """Where a file of ours is served; another content has another address."""
    content = files("gnomon.dashboard").joinpath("static", *name.split("/")).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def moment(at: datetime | None) -> Markup:
    """A moment, in UTC until the page's script shows it as the reader wants it."""
    if at is None:
        return Markup('<span class="none">{}</span>').format(words.NONE)
    text = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        text.isoformat(), f"{text:%Y-%m-%d %H:%M:%S} UTC", f"{text:%Y-%m-%d %H:%M:%S}"
    )


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("gnomon.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=literal,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "static": static_url,
        "gantt": gantt,
        "state_diagram": state_diagram,
        "shard_map": shard_map,
    }
    made.filters |= {
        "moment": moment,
        "span": words.span,
        "count": words.count,
        "number": words.number,
        "rate": words.rate,
        "status": words.status,
        "run_status": run_status,
        "address": words.address,
        "typed": typed,
        "size": words.size,
        "pairs": words.pairs,
        "quota_label": quota_label,
        "quota_text": quota_text,
    }
    return made


def page(request: Request, template: str, status: int = 200, **values: Any) -> ASGIResponse:
    """A page of the dashboard."""
    return ASGIResponse(
        body=rendered(request, template, **values), status_code=status, headers=dict(HEADERS)
    )


def rendered(request: Request, template: str, **values: Any) -> bytes:
    """The text of a page."""
    by = request.scope.get("auth")
    path: str = request.scope["path"]
    authenticated = context_of(request).authenticator is not None

    def offered(role: Role) -> bool:
        return not authenticated or _may(by, role)

    shown = (
        environment()
        .get_template(template)
        .render(
            by=by,
            rights=words.rights(by),
            groups=shown_groups(offered, path),
            authenticated=authenticated,
            fragment=is_fragment(request),
            open_events=request.scope.get(OPEN_EVENTS, {}),
            stream="/live/installation" if isinstance(by, Operator) else "/live",
            may_operate=offered(Role.OPERATE),
            may_read=offered(Role.READ),
            may_submit=offered(Role.SUBMIT),
            may_administer=offered(Role.ADMIN),
            opened=request.query_params.get("new") == "1",  # the form for something new
            done=words.DONE.get(request.query_params.get("done", "")),
            now=context_of(request).clock.now(),
            **values,
        )
    )
    return shown.encode("utf-8", "replace")


def _may(by: Requester | None, role: Role) -> bool:
    """Roles but the operator's are of a tenant."""
    of_a_tenant = isinstance(by, Principal)
    return by is not None and by.may(role) and (of_a_tenant or role is Role.OPERATOR)


def redirect(to: str, cookie: str | None = None) -> ASGIResponse:
    """Go there, with GET."""
    headers = {"location": to}
    if cookie is not None:
        headers["set-cookie"] = cookie
    return ASGIResponse(body=b"", status_code=303, headers=headers)
