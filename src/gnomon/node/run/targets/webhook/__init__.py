"""The HTTP client of webhooks: a request a call, by connections that a guard has let pass."""
