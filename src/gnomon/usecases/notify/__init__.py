"""Use cases of subscriptions."""
