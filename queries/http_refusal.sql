-- question:  Which decode uses did the decode worker's HTTP layer refuse before any page was taken?
-- inputs:    decode_use, segment, worker_clock, engine_event, access_line
-- grain:     one row per use_id
-- columns:   use_id  BIGINT  the refused use
-- assumes:   the refusal line names no request: a use that left nothing but its arrival is the
--            refused one if at least as many refusals as such uses follow within five seconds
-- misses:    refusals whose line is lost
WITH told AS (
    SELECT evidence_id, stream, byte_offset, stamp_ns, 'message' AS how
    FROM engine_event
    WHERE kind = 'http_input_too_long' AND stamp_ns IS NOT NULL
    UNION ALL
    SELECT evidence_id, stream, byte_offset, stamp_ns, 'access'
    FROM access_line
    WHERE method = 'POST' AND status_code BETWEEN 400 AND 499 AND path <> '/abort_request'
        AND stamp_ns IS NOT NULL
),
-- One refusal may print a message, an access line or both: each kind is counted by itself.
refusal AS (
    SELECT g.worker_id, v.how, v.stamp_ns - c.zone_ns AS t_ns
    FROM told AS v
    JOIN evidence AS e USING (evidence_id)
    JOIN segment AS g
        ON g.evidence_id = v.evidence_id AND g.stream = v.stream
        AND v.byte_offset >= g.start_offset AND v.byte_offset < g.end_offset
    JOIN worker_clock AS c ON c.worker_id = g.worker_id
    WHERE e."current"
),
silent AS (
    SELECT use_id, worker_id, received_lo
    FROM decode_use
    WHERE NOT has_end AND failed_lo IS NULL AND handshake_lo IS NULL AND timeout_lo IS NULL
        AND received_lo IS NOT NULL
)
SELECT s.use_id
FROM silent AS s
WHERE (
    SELECT greatest(
        count(*) FILTER (r.how = 'message'), count(*) FILTER (r.how = 'access')
    ) FROM refusal AS r
    WHERE r.worker_id = s.worker_id
        AND r.t_ns BETWEEN s.received_lo - 6000000000 AND s.received_lo + 5000000000
) >= (
    SELECT count(*) FROM silent AS o
    WHERE o.worker_id = s.worker_id
        AND o.received_lo BETWEEN s.received_lo - 5000000000 AND s.received_lo + 5000000000
)
ORDER BY s.use_id
