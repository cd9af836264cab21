"""Feeds of outcomes of a tenant."""

from gnomon.client.call import Call, segment
from gnomon.client.types.feeds import FeedInfo, FeedSpec


def list_feeds() -> Call[list[FeedInfo]]:
    """Lists feeds of outcomes, and what waits for them."""
    return Call(method="GET", path="/feeds", answer=list[FeedInfo], member="feeds")


def get_feed(name: str) -> Call[FeedInfo]:
    """Reads a feed of outcomes, and what waits for it."""
    return Call(method="GET", path=_feed(name), answer=FeedInfo)


def put_feed(name: str, feed: FeedSpec) -> Call[FeedInfo]:
    """Creates a feed of outcomes, or replaces it, for all tasks that end from now on."""
    return Call(method="PUT", path=_feed(name), body=feed, answer=FeedInfo)


def delete_feed(name: str) -> Call[None]:
    """Removes a feed of outcomes, with what waits for it."""
    return Call(method="DELETE", path=_feed(name))


def _feed(name: str) -> str:
    return f"/feeds/{segment(name)}"
