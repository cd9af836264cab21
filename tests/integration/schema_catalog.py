"""A schema as the catalog of PostgreSQL describes it, to be compared with another."""

from tests.integration.support import Connection

_QUERIES = {
    "relations": """
        SELECT relname, relkind, relpersistence,
            ARRAY(SELECT unnest(reloptions) ORDER BY 1)::text, relrowsecurity,
            relforcerowsecurity, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid)
        FROM pg_class WHERE relnamespace = 'gnomon'::regnamespace
    """,
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, a.attgenerated::text, a.attidentity::text, a.attstorage,
            a.attcompression, a.attstattarget, a.attoptions::text,
            pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'gnomon'::regnamespace AND a.attnum > 0 AND NOT attisdropped
    """,
    "indexes": """
        SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid,
            i.indisreplident, i.indisclustered
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'gnomon'::regnamespace
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
        FROM pg_constraint WHERE connamespace = 'gnomon'::regnamespace
    """,
    "functions": """
        SELECT proname, pg_get_functiondef(oid), proacl::text, pg_get_userbyid(proowner)
        FROM pg_proc WHERE pronamespace = 'gnomon'::regnamespace
    """,
    "triggers": """
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(t.oid), tgenabled
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'gnomon'::regnamespace AND NOT tgisinternal
    """,
    "types": """
        SELECT typname, typtype FROM pg_type WHERE typnamespace = 'gnomon'::regnamespace
    """,
    "statistics": """
        SELECT stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
        WHERE stxnamespace = 'gnomon'::regnamespace
    """,
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'gnomon'",
    "policies": """
        SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
        FROM pg_policies WHERE schemaname = 'gnomon'
    """,
    "privileges": """
        SELECT c.relname, NULL, pg_get_userbyid(c.relowner), acl::text
        FROM pg_class c LEFT JOIN unnest(c.relacl) AS acl ON true
        WHERE c.relnamespace = 'gnomon'::regnamespace
        UNION ALL
        SELECT c.relname, a.attname, NULL, acl::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid CROSS JOIN unnest(a.attacl) AS acl
        WHERE c.relnamespace = 'gnomon'::regnamespace
        UNION ALL
        SELECT nspname, NULL, pg_get_userbyid(nspowner), acl::text
        FROM pg_namespace CROSS JOIN unnest(nspacl) AS acl WHERE nspname = 'gnomon'
    """,
}

Catalog = dict[str, list[tuple[object, ...]]]


async def catalog(connection: Connection) -> Catalog:
    """Everything that migrations make: all but the rows."""
    found = {}
    for name, statement in _QUERIES.items():
        found[name] = sorted((tuple(row) for row in await connection.fetch(statement)), key=repr)
    return found


def without_places(schema: Catalog) -> Catalog:
    """The same, whatever the order of the columns in their tables."""
    columns = [(table, *rest) for table, _place, *rest in schema["columns"]]
    return schema | {"columns": sorted(columns, key=repr)}
