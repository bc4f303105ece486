-- question:  Which uses of a room did prefill workers make, and in which order?
-- inputs:    use
-- grain:     one row per (worker_id, room, rid)
-- columns:   turn    BIGINT  uses of the same room by any prefill worker before this one
--            n_uses  BIGINT  prefill-side uses of this room in the whole case
--            ...     as in use.sql
-- assumes:   clocks of two prefill workers differ by less than the time between two uses
-- misses:    uses that left no line with a room
SELECT
    row_number() OVER (PARTITION BY room ORDER BY first_ns, worker_id, rid) - 1 AS turn,
    count(*) OVER (PARTITION BY room) AS n_uses,
    *
FROM use
WHERE role = 'prefill'
