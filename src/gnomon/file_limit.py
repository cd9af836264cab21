"""The limit of open files and sockets of this process."""

import sys

from gnomon.settings import DatabaseSettings

_ENOUGH = 1 << 20  # where the system sets no limit, or one that no process comes near
_OWN_FILES = 128


def own_files(settings: DatabaseSettings) -> int:
    """Files that a process needs besides the connections that it serves or makes."""
    return _OWN_FILES + settings.connections


def raise_file_limit() -> int:
    """Raise the soft limit to the hard one. Returns the limit in force.

    The soft limit is 1024 on most systems, for programs that use `select`; a process that serves
    thousands of connections has to ask for more.
    """
    if sys.platform == "win32":  # sockets are not counted among files there
        return _ENOUGH
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a further limit of its own
            return soft
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def file_limit() -> int:
    """The limit that `raise_file_limit` would reach."""
    if sys.platform == "win32":
        return _ENOUGH
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
