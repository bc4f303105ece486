-- question:  What did the router answer for each request id?
-- inputs:    evidence, router_event
-- grain:     one row per request_id
-- columns:   request_id   VARCHAR  id
--            status_code  INTEGER  status of the answer; NULL if two answers differ or none is there
--            latency_us   BIGINT   time to the response header, microseconds
--            first_ns     BIGINT   first line, UTC epoch
--            last_ns      BIGINT   last line, UTC epoch
--            refs         VARCHAR[] evidence 'source|file:offset'
-- assumes:   router stamps are UTC (engine-telemetry.md, section 11)
-- misses:    requests of routers whose log is not here
SELECT
    request_id,
    CASE WHEN count(DISTINCT r.status_code) = 1 THEN any_value(r.status_code) END AS status_code,
    max(latency_us) AS latency_us,
    min(stamp_ns) AS first_ns,
    max(stamp_ns + stamp_res_ns) AS last_ns,
    list_sort(list_distinct(list(
        'router|' || evidence_id::VARCHAR || ':' || byte_offset::VARCHAR
    ))) AS refs
FROM router_event AS r
JOIN evidence AS e USING (evidence_id)
WHERE e."current" AND request_id IS NOT NULL
    AND event IN ('started', 'finished', 'client_error', 'server_error', 'select_failed',
        'prefill_error', 'decode_error')
GROUP BY request_id
