-- question:  Which prefill use belongs to which decode use?
-- inputs:    decode_use, prefill_use
-- grain:     one row per decode use that has a prefill record
-- columns:   use_id       BIGINT   decode use
--            prefill_worker_id INTEGER  prefill worker
--            prefill_rid  VARCHAR  its request id
--            ambiguous    BOOLEAN  several pairings are possible: no count may be compared
-- assumes:   one use of a room on either side belongs together; with equal numbers of uses the
--            k-th belongs to the k-th
-- misses:    pairings of rooms whose numbers of uses differ on the two roles
WITH decode_turn AS (
    SELECT
        use_id, room, n_uses,
        row_number() OVER (PARTITION BY room ORDER BY first_ns, worker_id, rid) - 1 AS turn
    FROM decode_use
)
SELECT
    d.use_id,
    arg_min(p.worker_id, abs(p.turn - d.turn)) AS prefill_worker_id,
    arg_min(p.rid, abs(p.turn - d.turn)) AS prefill_rid,
    bool_or(d.n_uses <> p.n_uses) AS ambiguous
FROM decode_turn AS d
JOIN prefill_use AS p
    ON p.room = d.room AND (p.turn = d.turn OR d.n_uses <> p.n_uses)
GROUP BY d.use_id
