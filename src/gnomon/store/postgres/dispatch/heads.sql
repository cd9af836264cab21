-- The next due tasks of each flow: see gnomon.read_heads.
SELECT * FROM gnomon.read_heads($1, $2, $3, $4, $5, $6, $7)
