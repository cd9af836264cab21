"""Keeps web pages from using an API without authentication.

Without authentication the API listens on loopback only, and everybody who can connect may use it.
So can a browser on the same machine, for any page that it shows: by a request that needs no
preflight (no-cors), or under a host name of the page that now resolves to 127.0.0.1 (DNS
rebinding). Headers that the browser sets, and a page cannot change, reveal such a request.
"""

from functools import lru_cache
from ipaddress import ip_address

# `Sec-Fetch-Site` of requests by the API's own page, or by the user.
_OWN_SITES = ("same-origin", "none")
# HTTP/1.0 programs may leave out the Host header. No browser speaks it.
_HTTP_1_0 = ("1", "1.0")
_SHORT = 64  # characters of a Host header that is worth remembering


def refusal(host: str | None, origin: str | None, site: str | None, version: str) -> str | None:
    """Why a request with these `Host`, `Origin` and `Sec-Fetch-Site` headers, in this version of
    HTTP, is refused, and what would be right; None: no foreign page can have made it."""
    unnamed = not host and version in _HTTP_1_0
    if not unnamed and not names_loopback(host):
        return (
            f"without authentication only requests to this machine are answered, and the Host "
            f"header is {host!r}; use http://127.0.0.1, or turn authentication on"
        )
    if origin is not None and (unnamed or origin not in (f"http://{host}", f"https://{host}")):
        return (
            f"without authentication no page of another origin may use the API, and this request "
            f"comes from {origin!r}; turn authentication on, and let the page's server ask"
        )
    if site is not None and site not in _OWN_SITES:
        return (
            "without authentication no page of another site may use the API, and the browser says "
            f"that this request is {site!r}; turn authentication on, and let the page's server ask"
        )
    return None


def refusal_of_session(host: str | None, origin: str | None, site: str | None) -> str | None:
    """Why a request that changes something under a session is refused; None: a page of this server
    has made it. Browsers name the origin of every such request."""
    own = () if not host else (f"http://{host}", f"https://{host}")
    if site in (None, "same-origin") and origin is not None and origin in own:
        return None
    return (
        f"under a session only pages of this server may change something, and this request comes "
        f"from {origin!r} ({site or 'unknown site'}); programs use /api/v1 with a key"
    )


def names_loopback(host: str | None) -> bool:
    """Whether a `Host` header names this machine, and nothing that a name server could decide."""
    if host is None:
        return False
    return _names_loopback(host) if len(host) <= _SHORT else _names_loopback.__wrapped__(host)


@lru_cache(1024)  # clients name few hosts, and reading an address takes longer than most checks
def _names_loopback(host: str) -> bool:
    name = _without_port(host)
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
