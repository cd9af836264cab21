"""Messages of refusals by quotas."""


def refusal_of(quota: str, limit: int, used: int, number: int) -> str:
    """The message: the use, the number that does not fit, and the remedy."""
    more = "another one does" if number == 1 else f"{number} more do"
    match quota:
        case "submissions_per_second" if number > limit:
            return (
                f"a batch of {number} is more than the quota submissions_per_second, {limit}, lets "
                f"in at any time; send at most {limit} at once"
            )
        case "submissions_per_second":
            return (
                f"{used} tasks were submitted within the last second, and {more} not fit into the "
                f"quota submissions_per_second, {limit}; try again in a second"
            )
        case "scheduled_tasks":
            return (
                f"{used} tasks have not ended, and {more} not fit into the quota scheduled_tasks, "
                f"{limit}; wait until some have ended, or cancel some"
            )
        case "stored_bytes":
            return (
                f"{used} bytes are stored, and {more} not fit into the quota stored_bytes, "
                f"{limit}; delete finished tasks, or wait until retention removes them"
            )
        case "nodes_per_run":
            return (
                f"the run has {used} nodes, and {more} not fit into the quota nodes_per_run, "
                f"{limit}; make smaller runs, or ask for a larger quota"
            )
        case _:
            return (
                f"there are {used} already, and {more} not fit into the quota {quota}, {limit}; "
                "remove some first"
            )
