-- Take room that tasks need which are stored already: $1 tenant, $2 how many.
WITH taken AS (
    UPDATE gnomon.tenant_room SET room = room - $2 WHERE tenant_id = $1 AND slot = 0 RETURNING slot
)
SELECT count(*) FROM taken
