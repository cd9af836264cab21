-- batch_values: a batch b, with what is noted of it in n.
b.tenant_id, b.id, b.name, b.state, b.total + n.added AS total, b.succeeded + n.succeeded AS succeeded,
        b.dead + n.dead AS dead, b.failed + n.failed AS failed, b.cancelled + n.cancelled AS cancelled,
        b.on_success, b.on_complete, b.reason, b.deadline, b.created_at, b.created_by, b.closed_at,
        b.completed_at, b.finished_at

-- batch_notes: what is not yet counted in the row of a batch b.
SELECT coalesce(sum(m.added), 0) AS added, coalesce(sum(m.succeeded), 0) AS succeeded,
        coalesce(sum(m.dead), 0) AS dead, coalesce(sum(m.failed), 0) AS failed,
        coalesce(sum(m.cancelled), 0) AS cancelled
    FROM gnomon.batch_note AS m
    WHERE m.tenant_id = b.tenant_id AND m.batch_id = b.id
