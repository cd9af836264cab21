-- What goes wrong in the background work of nodes and of the API, and has not been overcome: for those
-- who ask why. Each process keeps a bounded number of rows, and says again and again that they hold.
CREATE TABLE gnomon.trouble (
    process     text NOT NULL,          -- a node's incarnation, or an API process
    chore       text NOT NULL,
    tenant_id   text COLLATE "C" NOT NULL,  -- empty: it is not one tenant's
    subject     text NOT NULL,          -- what of the tenant's; empty: all, or the chore itself
    name        text NOT NULL,          -- of the process, for people
    sqlstate    text,
    error       text NOT NULL,
    remedy      text NOT NULL,
    since       timestamptz NOT NULL,
    last        timestamptz NOT NULL,
    count       bigint NOT NULL,
    retry_at    timestamptz NOT NULL,
    known_until timestamptz NOT NULL,   -- later, the process has ended without a word
    PRIMARY KEY (process, chore, tenant_id, subject)
);
SELECT gnomon.wall('gnomon.trouble', 'SELECT');
