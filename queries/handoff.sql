-- question:  Which prefill use belongs to which decode use?
-- inputs:    decode_use, prefill_use
-- grain:     one row per decode use that has a prefill record
-- columns:   use_id       BIGINT   decode use
--            prefill_worker_id INTEGER  prefill worker
--            prefill_rid  VARCHAR  its request id
--            ambiguous    BOOLEAN  several pairings are possible: no count may be compared
-- assumes:   one use of a room on either side belongs together. Of a reused room those belong
--            together that carry the same x-request-id; without one, with equal numbers of uses
--            on one worker of each role, none of them live at once, the k-th belongs to the k-th
-- misses:    pairings of reused rooms that neither ids nor order tell
WITH decode_turn AS (
    SELECT
        use_id, worker_id, room, rid, n_uses, first_ns, ended_hi, x_request_id,
        row_number() OVER room_order - 1 AS turn,
        coalesce(lead(first_ns) OVER room_order <= coalesce(ended_hi, 9223372036854775807), false)
            AS concurrent
    FROM decode_use
    WINDOW room_order AS (PARTITION BY room ORDER BY first_ns, worker_id, rid)
),
prefill_turn AS (
    SELECT
        *,
        coalesce(lead(first_ns) OVER room_order <= coalesce(ended_hi, 9223372036854775807), false)
            AS concurrent
    FROM prefill_use
    WINDOW room_order AS (PARTITION BY room ORDER BY turn)
),
-- Rooms whose uses on one role follow each other on one clock.
ordered AS (
    SELECT room
    FROM (
        SELECT 'decode' AS role, room, worker_id, concurrent FROM decode_turn WHERE n_uses > 1
        UNION ALL
        SELECT 'prefill', room, worker_id, concurrent FROM prefill_turn WHERE n_uses > 1
    )
    GROUP BY room
    HAVING NOT bool_or(concurrent)
        AND count(DISTINCT worker_id) FILTER (role = 'decode') = 1
        AND count(DISTINCT worker_id) FILTER (role = 'prefill') = 1
),
pair AS (
    SELECT
        d.use_id, p.worker_id, p.rid,
        coalesce(d.x_request_id = p.x_request_id, false) AS same_id,
        abs(p.turn - d.turn) AS distance,
        (d.n_uses = 1 AND p.n_uses = 1)
            OR (d.n_uses = p.n_uses AND p.turn = d.turn AND o.room IS NOT NULL) AS certain
    FROM decode_turn AS d
    JOIN prefill_turn AS p USING (room)
    LEFT JOIN ordered AS o USING (room)
)
SELECT
    use_id,
    arg_min(worker_id, (NOT same_id, distance, worker_id, rid)) AS prefill_worker_id,
    arg_min(rid, (NOT same_id, distance, worker_id, rid)) AS prefill_rid,
    NOT (count(*) FILTER (same_id) = 1
        OR (bool_or(certain) AND count(*) FILTER (same_id) = 0)) AS ambiguous
FROM pair
GROUP BY use_id
