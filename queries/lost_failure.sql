-- question:  When may decode have given pages back without a line, by what prefill tells?
-- inputs:    response, decode_use, prefill_use, handoff
-- params:    $longest_wait  ns that decode waits for a hand-off at most
-- grain:     one row per room that failed on prefill and that no decode log names
-- columns:   lo  BIGINT  earliest time of the release, on the axis of any decode worker
--            hi  BIGINT  latest time
-- assumes:   hosts' clocks differ by no more than in the hand-offs that both roles record; where
--            a decode worker's whole log is missing (one room in ten that prefill completed is in no
--            decode log), such rooms are taken for its own
-- misses:    failures that left no line on either role
WITH shift AS (
    SELECT
        min(d.first_ns - p.first_ns) AS lo_ns,
        max(d.first_ns - p.first_ns) AS hi_ns
    FROM handoff AS h
    JOIN decode_use AS d USING (use_id)
    JOIN prefill_use AS p
        ON p.room = d.room AND p.worker_id = h.prefill_worker_id AND p.rid = h.prefill_rid
    WHERE NOT h.ambiguous
),
orphan AS (
    SELECT
        first_ns,
        p_failed_reason IS NULL AND coalesce(p_sent_mb, 0) > 0 AS completed,
        -- Dropped before its forward pass, or refused: no page was ever sent.
        coalesce(NOT p_forwarded AND p_output_high = 0, false)
            OR coalesce(p_validator IS NOT NULL AND p_finish_type = 'abort', false) AS nothing_sent
    FROM response
    WHERE decode_worker_id IS NULL AND first_ns IS NOT NULL
)
SELECT
    o.first_ns + coalesce(s.lo_ns, 0) AS lo,
    o.first_ns + coalesce(s.hi_ns, 0) + $longest_wait AS hi
FROM orphan AS o
CROSS JOIN shift AS s
WHERE NOT o.completed AND NOT o.nothing_sent
    AND 10 * (SELECT count(*) FROM orphan WHERE completed) < (SELECT count(*) FROM response)
ORDER BY lo, hi
