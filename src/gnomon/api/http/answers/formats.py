"""The format of an answer that can be JSON or CSV."""

from enum import StrEnum

from gnomon.api.context import Request, header_of
from gnomon.api.http.document.operation import CSV, JSON


class Form(StrEnum):
    """The format of an answer."""

    JSON = "json"
    CSV = "csv"


def form_of(request: Request, asked: Form | None) -> Form:
    """As the query asks, else as the Accept header does."""
    if asked is not None:
        return asked
    accepted = header_of(request, b"accept") or ""
    kinds = [kind.partition(";")[0].strip().lower() for kind in accepted.split(",")]
    return Form.CSV if CSV in kinds and JSON not in kinds else Form.JSON
