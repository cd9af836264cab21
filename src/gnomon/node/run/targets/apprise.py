"""Services of Apprise, for operators: an extra, and blocking, so it runs in a thread."""

import asyncio
from functools import partial

from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.notify.notification import Notification
from gnomon.notify.wording import subject, text_of

_MISSING = "the extra is not installed on this node: pip install 'gnomon[apprise]'"
_REFUSED = "the service refused it, or did not answer; its URL may be wrong"


async def send_by_apprise(url: str, notification: Notification) -> Outcome:
    """One message. What Apprise says of a failure may name the URL, which is a secret."""
    try:
        from apprise import Apprise
    except ModuleNotFoundError:
        return Outcome(OutcomeKind.FAILED, error=_MISSING, uncalled=True)
    service = Apprise()
    if not service.add(url):
        detail = "its URL is none that Apprise understands"
        return Outcome(OutcomeKind.FAILED, error=detail, retryable=False, uncalled=True)
    title, body = subject(notification), text_of(notification)
    if await asyncio.to_thread(partial(service.notify, title=title, body=body)):
        return Outcome(OutcomeKind.SUCCEEDED)
    return Outcome(OutcomeKind.FAILED, error=_REFUSED)
