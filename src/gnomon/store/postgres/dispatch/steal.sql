-- Overdue tasks in the shards of others: see gnomon.read_overdue.
SELECT * FROM gnomon.read_overdue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
