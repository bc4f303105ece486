-- question:  Which refusals of a prompt name a request that no other line ties to a room?
-- inputs:    current_row, use, worker
-- grain:     one row per prefill worker that has any
-- columns:   worker  VARCHAR    worker
--            worker_id INTEGER  its number
--            n       BIGINT     refusals
--            refs    VARCHAR[]  evidence of the first five, 'file:offset'
-- assumes:   rids are unique within a worker
-- misses:    refusals of ranks that print none
SELECT
    w.worker,
    w.worker_id,
    count(*) AS n,
    list(r.evidence_id::VARCHAR || ':' || r.byte_offset::VARCHAR
        ORDER BY r.evidence_id, r.byte_offset)[1:5] AS refs
FROM current_row AS r
JOIN worker AS w USING (worker_id)
WHERE r.source IN ('input_too_long', 'finish_abort', 'reject_prefill') AND r.role <> 'decode'
    AND r.room IS NULL
    AND NOT EXISTS (SELECT 1 FROM use AS u WHERE u.worker_id = r.worker_id AND u.rid = r.rid)
GROUP BY w.worker, w.worker_id
ORDER BY w.worker
