"""Paths of the API that commands choose between."""

KEYS = "/keys"
OPERATOR_KEYS = "/operator-keys"
