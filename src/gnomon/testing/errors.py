"""Errors of tests.

GnomonError
├── NothingRuns      a result is waited for that nothing would bring
└── NotInThisMode    a call that this way of testing has no answer to
"""

from gnomon.model.errors import GnomonError


class NothingRuns(GnomonError):
    """A result is waited for that would never come: the task does not run at this moment."""


class NotInThisMode(GnomonError):
    """A call of the API that this way of testing has no answer to."""
