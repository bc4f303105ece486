-- question:  Which engine lines of note did each worker print, and how often?
-- inputs:    evidence, segment, worker, engine_event
-- grain:     one row per (worker, kind)
-- columns:   worker  VARCHAR    worker
--            kind    VARCHAR    kind of line
--            n       BIGINT     lines
--            refs    VARCHAR[]  evidence of the first five, 'file:offset'
-- assumes:   per-rank copies of one line are counted as lines, not as events
-- misses:    lines of streams that belong to no worker
SELECT
    w.worker,
    v.kind,
    count(*) AS n,
    list(v.evidence_id::VARCHAR || ':' || v.byte_offset::VARCHAR
        ORDER BY v.evidence_id, v.byte_offset)[1:5] AS refs
FROM engine_event AS v
JOIN evidence AS e USING (evidence_id)
JOIN segment AS g
    ON g.evidence_id = v.evidence_id AND g.stream = v.stream
    AND v.byte_offset >= g.start_offset AND v.byte_offset < g.end_offset
    AND (g.role_filter IS NULL OR g.role_filter = v.role_hint)
JOIN worker AS w ON w.worker_id = g.worker_id
WHERE e."current"
GROUP BY w.worker, v.kind
ORDER BY w.worker, v.kind
