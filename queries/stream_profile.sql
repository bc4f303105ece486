-- question:  What does each stream of each file contain, and which role do its lines betray?
-- inputs:    evidence, time_stats, batch_line, engine_event, request_log, access_line,
--            router_event, config_entry, metric, page_event, scheduler_status
-- grain:     one row per (evidence_id, stream)
-- columns:   evidence_id       INTEGER  file
--            stream            VARCHAR  source inside the file
--            name              VARCHAR  display name of the file
--            engine_rows       BIGINT   rows that only an engine process log has
--            request_rows      BIGINT   request-logger, export and status rows
--            router_rows       BIGINT   router rows
--            config_rows       BIGINT   rows of snapshots (server_info, loads, model_info)
--            metric_rows       BIGINT   Prometheus samples
--            trace_rows        BIGINT   page-trace rows
--            prefill_rows      BIGINT   rows that only a prefill worker prints
--            decode_rows       BIGINT   rows that only a decode worker prints
--            first_fact_offset BIGINT   byte offset of the first row that names a room
--            first_stamp_ns    BIGINT   smallest stamp, naive
--            last_stamp_ns     BIGINT   largest stamp, naive
-- assumes:   a prefill worker ends a request with at most one completion token although the
--            request asked for more; no other role does that with finish type 'length'
-- misses:    roles of streams that print none of these lines
WITH live AS (
    SELECT evidence_id, name FROM evidence WHERE "current" OR duplicate_of IS NOT NULL
),
-- Two workers may give the same snapshot, byte for byte: it is stored once and belongs to both.
config_file AS (
    SELECT e.evidence_id AS file_id, c.evidence_id, c.stream, c.byte_offset
    FROM config_entry AS c
    JOIN evidence AS e ON coalesce(e.duplicate_of, e.evidence_id) = c.evidence_id
    WHERE c.source IN ('server_info', 'loads', 'model_info')
),
fact AS (
    SELECT evidence_id, stream, 'engine' AS family, role, room, byte_offset, stamp_ns
    FROM time_stats
    UNION ALL
    SELECT evidence_id, stream, 'engine',
        CASE
            WHEN bootstrap_reqs IS NOT NULL OR inflight_reqs IS NOT NULL THEN 'prefill'
            WHEN transfer_reqs IS NOT NULL OR prealloc_usage IS NOT NULL THEN 'decode'
        END,
        NULL, byte_offset, stamp_ns
    FROM batch_line
    UNION ALL
    SELECT evidence_id, stream, 'engine', role_hint, room, byte_offset, stamp_ns
    FROM engine_event
    UNION ALL
    SELECT evidence_id, stream, 'request',
        CASE
            WHEN event = 'finished' AND finish_type = 'length' AND completion_tokens <= 1
            AND coalesce(max_new_tokens, 0) > 1 AND coalesce(room, 0) <> 0 THEN 'prefill'
            WHEN event = 'finished' AND completion_tokens > 1 AND coalesce(room, 0) <> 0
            THEN 'decode'
        END,
        room, byte_offset, stamp_ns
    FROM request_log
    UNION ALL
    SELECT evidence_id, stream, 'request', NULL, NULL, byte_offset, stamp_ns FROM access_line
    UNION ALL
    SELECT evidence_id, stream, 'request', NULL, NULL, byte_offset, stamp_ns
    FROM scheduler_status
    UNION ALL
    SELECT evidence_id, stream, 'router', NULL, NULL, byte_offset, stamp_ns FROM router_event
    UNION ALL
    SELECT file_id, stream, 'config', NULL, NULL, byte_offset, NULL FROM config_file
    UNION ALL
    SELECT evidence_id, stream, 'metric', NULL, NULL, byte_offset, NULL FROM metric
    UNION ALL
    SELECT evidence_id, stream, 'trace', role, room, byte_offset, NULL FROM page_event
)
SELECT
    fact.evidence_id,
    fact.stream,
    any_value(live.name) AS name,
    count(*) FILTER (family = 'engine') AS engine_rows,
    count(*) FILTER (family = 'request') AS request_rows,
    count(*) FILTER (family = 'router') AS router_rows,
    count(*) FILTER (family = 'config') AS config_rows,
    count(*) FILTER (family = 'metric') AS metric_rows,
    count(*) FILTER (family = 'trace') AS trace_rows,
    count(*) FILTER (role = 'prefill') AS prefill_rows,
    count(*) FILTER (role = 'decode') AS decode_rows,
    min(byte_offset) FILTER (coalesce(room, 0) <> 0) AS first_fact_offset,
    min(stamp_ns) AS first_stamp_ns,
    max(stamp_ns) AS last_stamp_ns
FROM fact
JOIN live USING (evidence_id)
GROUP BY fact.evidence_id, fact.stream
ORDER BY fact.evidence_id, fact.stream
