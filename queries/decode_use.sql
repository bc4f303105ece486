-- question:  Which uses of a room did decode workers make, and which attempt was each?
-- inputs:    use
-- grain:     one row per (worker_id, room, rid)
-- columns:   use_id     BIGINT   number of the use, in order of (room, attempt, worker)
--            attempt    BIGINT   uses of the same room on the same decode pool before this one
--            n_uses     BIGINT   decode-side uses of this room in the whole case
--            ...        as in use.sql
-- assumes:   a room that two decode workers name was minted twice or copied
-- misses:    uses that only prefill recorded (response.sql adds them)
WITH numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY room, worker_id, coalesce(dp, -1) ORDER BY first_ns, rid
        ) - 1 AS attempt,
        count(*) OVER (PARTITION BY room) AS n_uses
    FROM use
    WHERE role = 'decode'
)
SELECT row_number() OVER (ORDER BY room, attempt, worker_id, rid) AS use_id, *
FROM numbered
