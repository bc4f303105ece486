-- question:  Which pools did each worker report at start, and which limits did it name?
-- inputs:    evidence, segment, engine_event
-- grain:     one row per (worker_id, epoch, dp, kind)
-- columns:   worker_id  INTEGER  worker
--            epoch      INTEGER  boot epoch
--            dp         SMALLINT DP rank; NULL without data parallelism
--            kind       VARCHAR  'pool' (n1 tokens, n2 context), 'limit' (n1 = M of a refusal),
--                                'hybrid', 'model' (text: the model class)
--            n1         BIGINT   first number
--            n2         BIGINT   second number
--            text       VARCHAR  attrs of the line
--            ref        VARCHAR  evidence 'file:offset'
-- assumes:   all ranks of one DP rank report the same pool
-- misses:    pools whose start lines were rotated away
SELECT
    g.worker_id, g.epoch, v.dp,
    CASE v.kind WHEN 'pool' THEN 'pool' WHEN 'input_too_long' THEN 'limit'
        WHEN 'pool_hybrid' THEN 'hybrid' ELSE 'model' END AS kind,
    CASE v.kind WHEN 'input_too_long' THEN min(v.n2) ELSE min(v.n1) END AS n1,
    CASE v.kind WHEN 'pool' THEN min(v.n2) END AS n2,
    min(v.attrs) AS text,
    min(v.evidence_id::VARCHAR || ':' || v.byte_offset::VARCHAR) AS ref
FROM engine_event AS v
JOIN evidence AS e USING (evidence_id)
JOIN segment AS g
    ON g.evidence_id = v.evidence_id AND g.stream = v.stream
    AND v.byte_offset >= g.start_offset AND v.byte_offset < g.end_offset
WHERE e."current" AND v.kind IN ('pool', 'input_too_long', 'pool_hybrid', 'model_loaded')
GROUP BY g.worker_id, g.epoch, v.dp, v.kind
ORDER BY ALL
