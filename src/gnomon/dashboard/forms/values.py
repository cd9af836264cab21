"""What was typed as values of a request, and refusals beside their fields."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from gnomon.api.http.answers.problems import described
from gnomon.model.errors import GnomonError, InvalidTask

_MENDABLE = (403, 409, 422)
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)  # which JSON and int64 can hold


class Refusal(NamedTuple):
    """Why a form was refused: the status, and the reasons by field; of "" that of the whole."""

    status: int
    reasons: Mapping[str, str]


def number(text: str) -> float | str | None:
    """A number as it was typed; other text as it is, so that it is refused where numbers are
    checked; None where nothing was typed."""
    text = text.strip()
    if _NUMBER.fullmatch(text) is None:
        return text or None
    return float(text) if "." in text else int(text)


def line(text: str) -> str | None:
    """Text without the spaces around it; None where nothing was typed."""
    return text.strip() or None


def lines(text: str) -> list[str] | None:
    """The lines with anything in them; None where there is none."""
    return [each.strip() for each in text.splitlines() if each.strip()] or None


def refusal_of(error: GnomonError) -> Refusal:
    """How to show the error in the form again. Raises it where no other entry would help."""
    problem, _ = described(error)
    if problem.status not in _MENDABLE:
        raise error
    if isinstance(error, InvalidTask):
        return Refusal(
            problem.status, {_field(each.pointer): each.detail for each in error.mistakes}
        )
    return Refusal(problem.status, {_field(getattr(error, "pointer", "")): str(error)})


def _field(pointer: str) -> str:
    """The field of a place: of "/quotas/cron_jobs" it is `cron_jobs`, of "/hosts/3" `hosts`."""
    names = [part for part in pointer.split("/") if part and not part.isdecimal()]
    return names[-1] if names else ""
