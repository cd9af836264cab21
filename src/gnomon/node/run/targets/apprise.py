"""Services of Apprise, for operators: an extra, and blocking, so it runs in a thread."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.notify.notification import Notification
from gnomon.notify.wording import subject, text_of

_MISSING = "the extra is not installed on this node: pip install 'gnomon[apprise]'"
_UNKNOWN = "its URL is none that Apprise understands"
_REFUSED = "the service refused it, or did not answer; its URL may be wrong"
# Of its own: services that hang must not take the threads that look up the names of all hosts.
_threads = ThreadPoolExecutor(4, "apprise")


async def send_by_apprise(url: str, notification: Notification) -> Outcome:
    """One message. What Apprise says of a failure may name the URL, which is a secret."""
    title, body = subject(notification), text_of(notification)
    return await asyncio.get_running_loop().run_in_executor(_threads, _send, url, title, body)


def _send(url: str, title: str, body: str) -> Outcome:
    try:
        from apprise import Apprise
    except ModuleNotFoundError:
        return Outcome(OutcomeKind.FAILED, error=_MISSING, uncalled=True)
    logging.getLogger("apprise").disabled = True  # it writes URLs into the log
    service = Apprise()
    if not service.add(url):
        return Outcome(OutcomeKind.FAILED, error=_UNKNOWN, retryable=False, uncalled=True)
    if service.notify(title=title, body=body):
        return Outcome(OutcomeKind.SUCCEEDED)
    return Outcome(OutcomeKind.FAILED, error=_REFUSED)
