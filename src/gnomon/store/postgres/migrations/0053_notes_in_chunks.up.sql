-- Counts members that have ended, once for each batch, and starts the callbacks whose turn has come: gives
-- them, and a row without an id where something is left for the chore. Nulls count nothing.
-- Batches are counted in the order of their ids, and nobody who has counted waits for the row of a task:
-- so nobody waits in a circle. Each statement sees what was committed before it, so what was noted before
-- a member could end is counted with that end, and nothing is ever complete too early. Notes are taken
-- 10 000 at once: while some are left nothing is decided, and the chore goes on with them.
CREATE OR REPLACE FUNCTION gnomon.pass_batches(
    p_tenants text[], p_ids uuid[], p_succeeded integer[], p_failed integer[], p_cancelled integer[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, flow bigint, by_handler boolean
)
    LANGUAGE plpgsql ROWS 1 SET search_path = pg_catalog
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := gnomon.now();
    v_ended record;
    v_batch record;  -- of gnomon.batch, and how many notes were taken
    v_started record;
    v_pending integer;
    v_turn uuid[];
    v_step boolean;
    v_left text;
BEGIN
    FOR v_ended IN
        SELECT e.tenant_id, e.id, coalesce(e.succeeded, 0) AS succeeded,
            coalesce(e.failed, 0) AS failed, coalesce(e.cancelled, 0) AS cancelled
        FROM unnest(p_tenants, p_ids, p_succeeded, p_failed, p_cancelled)
            AS e (tenant_id, id, succeeded, failed, cancelled)
        ORDER BY e.tenant_id, e.id
    LOOP
        PERFORM FROM gnomon.batch AS b
        WHERE b.tenant_id = v_ended.tenant_id AND b.id = v_ended.id
        FOR NO KEY UPDATE;
        WITH used AS (
            DELETE FROM gnomon.batch_note AS n
            USING (
                SELECT c.ctid FROM gnomon.batch_note AS c
                WHERE c.tenant_id = v_ended.tenant_id AND c.batch_id = v_ended.id
                LIMIT 10000
            ) AS c
            WHERE n.ctid = c.ctid
            RETURNING n.added, n.succeeded, n.dead, n.failed, n.cancelled
        ), noted AS (
            SELECT coalesce(sum(added), 0) AS added, coalesce(sum(succeeded), 0) AS succeeded,
                coalesce(sum(dead), 0) AS dead, coalesce(sum(failed), 0) AS failed,
                coalesce(sum(cancelled), 0) AS cancelled, count(*) AS notes
            FROM used
        )
        UPDATE gnomon.batch AS b
        SET total = b.total + n.added,
            succeeded = b.succeeded + v_ended.succeeded + n.succeeded,
            dead = b.dead + n.dead,
            failed = b.failed + v_ended.failed + n.failed,
            cancelled = b.cancelled + v_ended.cancelled + n.cancelled
        FROM noted AS n
        WHERE b.tenant_id = v_ended.tenant_id AND b.id = v_ended.id
        RETURNING b.*, n.notes INTO v_batch;
        CONTINUE WHEN NOT FOUND OR v_batch.state = 0;
        IF v_batch.notes = 10000 AND EXISTS (
            SELECT FROM gnomon.batch_note AS n
            WHERE n.tenant_id = v_batch.tenant_id AND n.batch_id = v_batch.id
        ) THEN
            v_left := v_batch.tenant_id;
            CONTINUE;
        END IF;
        v_pending := v_batch.total - v_batch.succeeded - v_batch.dead - v_batch.failed
            - v_batch.cancelled;
        v_turn := '{}';
        IF v_batch.state = 1 AND (v_pending = 0 OR v_batch.completed_at IS NOT NULL) THEN
            v_turn := v_turn || v_batch.on_complete;
        END IF;
        IF v_batch.state = 1 AND v_batch.succeeded = v_batch.total THEN
            v_turn := v_turn || v_batch.on_success;
        END IF;
        FOR v_started IN
            UPDATE gnomon.task AS t
            SET state = 0, id = t.id, due_at = v_now
            FROM (
                SELECT f.ctid FROM gnomon.task AS f
                WHERE f.tenant_id = v_batch.tenant_id AND f.id = ANY (v_turn) AND f.state + 0 = 3
                FOR UPDATE SKIP LOCKED
            ) AS f
            WHERE t.ctid = f.ctid
            RETURNING
                t.tenant_id, t.id, t.due_at, t.lane, t.flow,
                gnomon.is_by_handler(t.target) AS by_handler,
                t.sla_seconds IS NOT NULL OR t.warn_after_seconds IS NOT NULL AS watched
        LOOP
            IF v_started.watched THEN
                PERFORM gnomon.watch_tasks(v_started.tenant_id, ARRAY[v_started.id]);
            END IF;
            tenant_id := v_started.tenant_id;
            id := v_started.id;
            due_at := v_started.due_at;
            lane := v_started.lane;
            flow := v_started.flow;
            by_handler := v_started.by_handler;
            RETURN NEXT;
        END LOOP;
        -- The chore starts what somebody else held, and ends on_success where it can never start.
        IF v_pending = 0 AND v_batch.dead = 0 AND v_batch.succeeded < v_batch.total THEN
            v_turn := v_turn || v_batch.on_success;
        END IF;
        v_step := EXISTS (
            SELECT FROM gnomon.task AS f
            WHERE f.tenant_id = v_batch.tenant_id AND f.id = ANY (v_turn) AND f.state + 0 = 3
        );
        IF v_step THEN
            v_left := v_batch.tenant_id;
        END IF;
        UPDATE gnomon.batch AS b
        SET finished_at = CASE WHEN v_pending = 0 THEN coalesce(b.finished_at, v_now) END,
            completed_at = CASE
                WHEN b.state = 1 AND v_pending = 0 THEN coalesce(b.completed_at, v_now)
                ELSE b.completed_at
            END,
            step = b.step OR v_step
        WHERE b.tenant_id = v_batch.tenant_id AND b.id = v_batch.id
          AND (v_step OR (v_pending = 0) <> (b.finished_at IS NOT NULL)
              OR (b.state = 1 AND v_pending = 0 AND b.completed_at IS NULL));
    END LOOP;
    IF v_left IS NOT NULL THEN
        tenant_id := v_left;
        id := NULL;
        RETURN NEXT;
    END IF;
END
$$;
