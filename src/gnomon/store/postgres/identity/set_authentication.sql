-- Turn authentication on or off for all processes. Gives a row where it was otherwise before.
UPDATE gnomon.revision SET authentication = $1 WHERE authentication <> $1 RETURNING authentication
