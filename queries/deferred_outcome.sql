-- question:  How did each worker's deferred releases end, by its own counters?
-- inputs:    evidence, worker_stream, metric, use
-- grain:     one row per worker_id that exports the counter or logged failed transfers
-- columns:   worker_id      INTEGER  decode worker
--            drained        DOUBLE   releases that drained
--            timed_out      DOUBLE   releases that gave up
--            errors         DOUBLE   releases that failed
--            failed_metric  DOUBLE   failed transfers by the engine's own counter
--            failed_lines   BIGINT   rooms with a failed transfer in the log
--            logged_timeouts BIGINT  rooms whose deferred release timed out or failed in the log
--            exported       BOOLEAN  the counter was seen
--            ref            VARCHAR  evidence 'file:offset'
-- assumes:   counters did not reset between the scrapes (one boot epoch)
-- misses:    engines below 0.5.22, which do not export it
WITH sample AS (
    SELECT s.worker_id, m.name, m.labels,
        json_extract_string(m.labels::JSON, '$.outcome') AS outcome,
        max(m.value) AS value,
        arg_max(m.evidence_id::VARCHAR || ':' || m.byte_offset::VARCHAR, m.value) AS ref
    FROM metric AS m
    JOIN evidence AS e USING (evidence_id)
    JOIN worker_stream AS s ON s.evidence_id = m.evidence_id AND s.stream = m.stream
    WHERE e."current" AND m.name IN (
        'sglang:decode_deferred_kv_release_total', 'sglang:num_transfer_failed_reqs_total'
    )
    GROUP BY ALL
),
counter AS (
    SELECT
        worker_id,
        sum(value) FILTER (outcome = 'drained') AS drained,
        sum(value) FILTER (outcome = 'timeout') AS timed_out,
        sum(value) FILTER (outcome = 'error') AS errors,
        sum(value) FILTER (name = 'sglang:num_transfer_failed_reqs_total') AS failed_metric,
        bool_or(name = 'sglang:decode_deferred_kv_release_total') AS exported,
        min(ref) FILTER (name = 'sglang:decode_deferred_kv_release_total') AS ref
    FROM sample
    GROUP BY worker_id
),
failed AS (
    SELECT
        worker_id,
        count(DISTINCT (room, rid)) FILTER (failed_lo IS NOT NULL) AS failed_lines,
        count(DISTINCT (room, rid)) FILTER (timeout_lo IS NOT NULL) AS logged_timeouts
    FROM use
    WHERE role = 'decode' AND (failed_lo IS NOT NULL OR timeout_lo IS NOT NULL)
    GROUP BY worker_id
)
SELECT
    worker_id,
    coalesce(drained, 0) AS drained,
    coalesce(timed_out, 0) AS timed_out,
    coalesce(errors, 0) AS errors,
    failed_metric,
    coalesce(failed_lines, 0) AS failed_lines,
    coalesce(logged_timeouts, 0) AS logged_timeouts,
    coalesce(exported, false) AS exported,
    ref
FROM counter
FULL JOIN failed USING (worker_id)
ORDER BY worker_id
