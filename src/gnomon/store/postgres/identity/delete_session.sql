DELETE FROM gnomon.session WHERE name = $1
