"""RateLimit header fields: a tenant's quota of submissions a second, and what is left of it."""

from gnomon.model.fleet.tenant import Pace


def pace_headers(pace: Pace | None) -> dict[str, str]:
    """As draft-ietf-httpapi-ratelimit-headers has them; none for a tenant without a quota."""
    if pace is None:
        return {}
    return {
        "RateLimit-Policy": f'"submissions";q={pace.most};w=1',
        "RateLimit": f'"submissions";r={pace.left};t=1',
    }
