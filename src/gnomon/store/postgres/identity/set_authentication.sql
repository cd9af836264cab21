-- Turn authentication on or off for all processes. Returns a row where that is a change.
UPDATE gnomon.revision SET authentication = $1 WHERE authentication <> $1 RETURNING authentication
