-- Let all processes accept new work again, unless somebody else has another reason than this one ($1).
UPDATE gnomon.revision SET full_until = NULL, full_why = NULL WHERE full_why = $1
