-- Let all processes refuse new work for $2 seconds, and say why ($1).
UPDATE gnomon.revision SET full_until = gnomon.now() + make_interval(secs => $2::float8), full_why = $1
