"""Takes out of a text what would open something, wherever it came from. Pure.

What a bundle is made of holds no secrets by itself: this is the second lock."""

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from gnomon.model.targets.target_secrets import MASK

_LEAST_LENGTH = 4  # a shorter value would take innocent words with it
_SHAPES = (
    re.compile(r"\b(?:whsec|whsk)_[A-Za-z0-9+/=_-]+"),  # secrets and keys of webhooks
    re.compile(r"\bgn(?:omon)?_[A-Za-z0-9]{16,}"),  # API keys
    re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),  # tokens
    re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}"),
    re.compile(r"(?<=://)[^\s/@\"']+(?=@)"),  # user and password of an address
    re.compile(r"(?i)(?<=password=)[^\s&\"']+"),
)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text without these values, and without what looks like a secret."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    return text


def parts_of(secret: str) -> list[str]:
    """The texts that give a secret away: itself; of an address its password, escaped or not."""
    found = [secret]
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    if password:
        found += [password, unquote(password)]
    return [each for each in found if len(each) >= _LEAST_LENGTH]
