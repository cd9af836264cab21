"""The receiver kit, for programs whose tasks are webhooks.

`Webhooks` checks and reads a call; `once` makes it count once, in the transaction of the receiver's
own writes. `gnomon.receive.fastapi`, `.flask` and `.django` make endpoints of functions.
"""

from gnomon.receive.answers import ANSWERED, WebhookAnswer, answer_to, success
from gnomon.receive.errors import (
    BadPayload,
    NotGenuine,
    Repeated,
    Stale,
    WebhookRefused,
)
from gnomon.receive.table import admit, ddl, once, prune
from gnomon.receive.webhooks import Received, Webhooks
from gnomon.sdk.errors import NoTransaction

__all__ = [
    "ANSWERED",
    "BadPayload",
    "NoTransaction",
    "NotGenuine",
    "Received",
    "Repeated",
    "Stale",
    "WebhookAnswer",
    "WebhookRefused",
    "Webhooks",
    "admit",
    "answer_to",
    "ddl",
    "once",
    "prune",
    "success",
]
