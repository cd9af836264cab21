-- activity_sums: The sums of rows of activity.
sum(submitted)::bigint AS submitted, sum(started)::bigint AS started,
sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed, sum(dead)::bigint AS dead,
sum(seconds) AS seconds, ARRAY[
sum(delays[1])::bigint, sum(delays[2])::bigint, sum(delays[3])::bigint, sum(delays[4])::bigint,
sum(delays[5])::bigint, sum(delays[6])::bigint, sum(delays[7])::bigint, sum(delays[8])::bigint,
sum(delays[9])::bigint, sum(delays[10])::bigint, sum(delays[11])::bigint, sum(delays[12])::bigint,
sum(delays[13])::bigint, sum(delays[14])::bigint, sum(delays[15])::bigint, sum(delays[16])::bigint,
sum(delays[17])::bigint] AS delays
