"""Security headers of every answer, for browsers."""

import base64
import hashlib
import re

Headers = list[tuple[bytes, bytes]]

# An answer is data: browsers must not run, frame, sniff or cache it.
_ALWAYS: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]


_NAMES = frozenset(name for name, _ in _ALWAYS)


def with_security(headers: Headers) -> Headers:
    """The headers of an answer, with those of these that it does not set itself."""
    own = [name.lower() for name, _ in headers]
    if _NAMES.isdisjoint(own):  # nearly every answer
        return [*headers, *_ALWAYS]
    return [*headers, *(header for header in _ALWAYS if header[0] not in own)]


def page_policy(html: str) -> str:
    """The Content-Security-Policy of a page that uses its own inline script and style, and its own
    server, and nothing else."""
    sources = {tag: _hashes(tag, html) for tag in ("script", "style")}
    return (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _hashes(tag: str, html: str) -> str:
    texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts)
    return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
