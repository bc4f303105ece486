-- question:  Which model does each worker serve, on how many DP ranks?
-- inputs:    evidence, worker_stream, config_entry
-- grain:     one row per worker_id
-- columns:   worker_id  INTEGER  worker
--            model      VARCHAR  served_model_name, else model_path; NULL if they differ
--            dp_size    BIGINT   DP ranks; NULL if unknown or different
-- assumes:   a worker serves one model for the length of the case
-- misses:    workers without a start-up line or a snapshot
WITH stated AS (
    SELECT s.worker_id, c.key, json_extract_string(c.value::JSON, '$') AS value
    FROM config_entry AS c
    JOIN evidence AS e ON coalesce(e.duplicate_of, e.evidence_id) = c.evidence_id
    JOIN worker_stream AS s ON s.evidence_id = e.evidence_id AND s.stream = c.stream
    WHERE (e."current" OR e.duplicate_of IS NOT NULL) AND c.source <> 'evidence_toml'
        AND c.key IN ('served_model_name', 'model_path', 'dp_size')
)
SELECT
    worker_id,
    CASE
        WHEN count(DISTINCT value) FILTER (key = 'served_model_name' AND value <> 'null') = 1
        THEN max(value) FILTER (key = 'served_model_name' AND value <> 'null')
        WHEN count(DISTINCT value) FILTER (key = 'model_path') = 1
        THEN max(value) FILTER (key = 'model_path')
    END AS model,
    CASE WHEN count(DISTINCT value) FILTER (key = 'dp_size') = 1
        THEN TRY_CAST(max(value) FILTER (key = 'dp_size') AS BIGINT) END AS dp_size
FROM stated
GROUP BY worker_id
ORDER BY worker_id
