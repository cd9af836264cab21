"""The background work of a process: repeated for ever, whatever goes wrong in it.

A chore is a named piece of work that a process repeats. An error in it is noted (`Troubles`), and
the chore is tried again after a pause that doubles; where one task, job or tenant is the cause, it
is found by halving (`isolated`) and set aside, so that the others go on. No error of a chore ends
the process: only a `BrokenInvariant` or a lost lease does.
"""

from gnomon.chores.isolating import isolated
from gnomon.chores.keeping import TroubleKeeper, TroubleStore
from gnomon.chores.service import Service, every, one_by_one, whenever
from gnomon.chores.supervisor import Chores
from gnomon.chores.troubles import (
    THE_CHORE,
    About,
    Trouble,
    Troubles,
    about_job,
    about_step,
    about_task,
    jobs_in,
)

__all__ = [
    "THE_CHORE",
    "About",
    "Chores",
    "Service",
    "Trouble",
    "TroubleKeeper",
    "TroubleStore",
    "Troubles",
    "about_job",
    "about_step",
    "about_task",
    "every",
    "isolated",
    "jobs_in",
    "one_by_one",
    "whenever",
]
