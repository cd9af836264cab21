"""PostgreSQL's own array types, told to the driver.

It knows their elements, and would look up the arrays: on every new connection again, for each
statement that has one which none before it had. That takes PostgreSQL some 15 ms of processor time
a connection, and three round trips each time. Their numbers are the same in every PostgreSQL.
"""

from typing import Any

# By the name of the element: the numbers of the array and of the element.
ARRAYS = {
    "bool": (1000, 16),
    "bytea": (1001, 17),
    "date": (1182, 1082),
    "float4": (1021, 700),
    "float8": (1022, 701),
    "int2": (1005, 21),
    "int4": (1007, 23),
    "int8": (1016, 20),
    "json": (199, 114),
    "jsonb": (3807, 3802),
    "tid": (1010, 27),
    "timestamptz": (1185, 1184),
    "uuid": (2951, 2950),
}

_TYPES = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemtype_name": name,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
    }
    for name, (array, element) in ARRAYS.items()
]


async def know_arrays(connection: Any) -> None:
    """For a new connection of a pool. The driver has no public way to be told of types."""
    connection._protocol.get_settings().register_data_types(_TYPES)
