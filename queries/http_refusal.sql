-- question:  Which decode uses did the decode worker's HTTP layer refuse before any page was taken?
-- inputs:    decode_use, segment, worker_clock, engine_event
-- grain:     one row per use_id
-- columns:   use_id  BIGINT  the refused use
-- assumes:   the refusal line names no request: a use that left nothing but its arrival is the
--            refused one if at least as many refusals as such uses follow within five seconds
-- misses:    refusals whose line is lost; an access line with status 4xx names no request either, and
--            malformed requests, which never became a use, print the same
WITH refusal AS (
    SELECT g.worker_id, v.stamp_ns - c.zone_ns AS t_ns
    FROM engine_event AS v
    JOIN evidence AS e USING (evidence_id)
    JOIN segment AS g
        ON g.evidence_id = v.evidence_id AND g.stream = v.stream
        AND v.byte_offset >= g.start_offset AND v.byte_offset < g.end_offset
    JOIN worker_clock AS c ON c.worker_id = g.worker_id
    WHERE e."current" AND v.kind = 'http_input_too_long' AND v.stamp_ns IS NOT NULL
),
-- A refused request leaves its arrival and nothing else: any further line shows a life.
silent AS (
    SELECT use_id, worker_id, received_lo
    FROM decode_use
    WHERE received_lo IS NOT NULL
        AND len(list_filter(refs, lambda ref: NOT starts_with(ref, 'received|'))) = 0
)
SELECT s.use_id
FROM silent AS s
WHERE (
    SELECT count(*) FROM refusal AS r
    WHERE r.worker_id = s.worker_id
        AND r.t_ns BETWEEN s.received_lo - 6000000000 AND s.received_lo + 5000000000
) >= (
    SELECT count(*) FROM silent AS o
    WHERE o.worker_id = s.worker_id
        AND o.received_lo BETWEEN s.received_lo - 5000000000 AND s.received_lo + 5000000000
)
ORDER BY s.use_id
