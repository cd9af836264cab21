"""Values of the fields of forms, as browsers write them."""

from datetime import UTC, datetime

from gnomon.model.errors import InvalidTask
from gnomon.usecases.checks.request_moments import moment_of

_EXAMPLE = "2030-01-31T12:00"


def moment_of_field(text: str, pointer: str) -> datetime:
    """A moment in UTC, as a field of the type datetime-local writes it. Raises InvalidTask."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidTask(f"must be a time in UTC, as {_EXAMPLE}", pointer) from error
    return moment_of(found if found.tzinfo else found.replace(tzinfo=UTC), pointer)
