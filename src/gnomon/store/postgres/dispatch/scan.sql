-- Read ahead of the cursors: see gnomon.read_ahead.
SELECT * FROM gnomon.read_ahead($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
