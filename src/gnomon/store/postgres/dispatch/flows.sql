-- The flows that have waiting tasks, after a given one: see gnomon.read_flows.
SELECT * FROM gnomon.read_flows($1, $2, $3, $4, $5, $6, $7, $8)
