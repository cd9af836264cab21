"""Signing in: a key or token for a session. Not needed where authentication is off."""

from urllib.parse import quote

from litestar import route
from litestar.response.base import ASGIResponse

from gnomon.api.auth.access import OPEN, check_own_page, session_in
from gnomon.api.auth.sessions import set_cookie
from gnomon.api.context import Request, context_of, header_of
from gnomon.api.http.document.operation import READ
from gnomon.api.http.requests.reading import read_form
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import Unauthenticated

MOST_BYTES = 32_768
_REFUSED = "This is no valid key or token: it may be mistyped, revoked or expired."


def sign_in_url(request: Request) -> str:
    """The page to sign in on, which comes back to this one."""
    # As it was asked for: names of things may have `/` and `?` in them.
    path = request.scope["raw_path"].partition(b"?")[0].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    back = path + (f"?{query}" if query else "")
    return "/sign-in" if back == "/" else f"/sign-in?next={quote(back)}"


@route("/sign-in", http_method=READ, opt=OPEN)
async def show_sign_in(request: Request) -> ASGIResponse:
    if context_of(request).authenticator is None:
        return redirect("/")
    back = request.query_params.get("next", "/")
    return page(request, "sign_in.html", back=_own_path(back), wrong=None)


@route("/sign-in", http_method="POST", opt=OPEN, status_code=200)
async def sign_in(request: Request) -> ASGIResponse:
    context = context_of(request)
    if context.authenticator is None:
        return redirect("/")
    check_own_page(request)
    form = await read_form(request, MOST_BYTES)
    credentials, back = form.get("credentials", "").strip(), _own_path(form.get("next", "/"))
    try:
        await context.authenticator.requester(f"Bearer {credentials}")
    except (Unauthenticated, UnicodeError):
        context.limits.failed(request.scope)
        await context.refusals.wait()
        return page(request, "sign_in.html", 401, back=back, wrong=_REFUSED)
    context.limits.signed_in(request.scope)
    cookie = await context.sessions.begin(credentials)
    await context.sessions.end(session_in(request))  # the one of before, which nobody has any more
    return redirect(back, set_cookie(cookie, secure=_by_https(request)))


@route("/sign-out", http_method="POST", opt=OPEN, status_code=200)
async def sign_out(request: Request) -> ASGIResponse:
    check_own_page(request)
    await context_of(request).sessions.end(session_in(request))
    return redirect("/sign-in", set_cookie(None, secure=_by_https(request)))


def _by_https(request: Request) -> bool:
    """Whether the browser speaks HTTPS, with this server or a proxy before it."""
    return (header_of(request, b"origin") or "").startswith("https://")


def _own_path(path: str) -> str:
    """The path, if it is one of this server and no other's."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


ROUTES = (show_sign_in, sign_in, sign_out)
