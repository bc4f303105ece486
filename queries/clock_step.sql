-- question:  Did a worker's clock jump back inside a file, and by how much at most?
-- inputs:    segment, time_stats, engine_event, batch_line
-- grain:     one row per worker_id
-- columns:   worker_id  INTEGER  worker
--            back_ns    BIGINT   largest step back between neighbouring stamped lines, ns
-- assumes:   lines of one stream stand in the order in which they were written
-- misses:    steps forward, and steps back inside a second
WITH stamped AS (
    SELECT evidence_id, stream, byte_offset, stamp_ns FROM time_stats
    UNION ALL
    SELECT evidence_id, stream, byte_offset, stamp_ns FROM engine_event
    UNION ALL
    SELECT evidence_id, stream, byte_offset, stamp_ns FROM batch_line
),
neighbour AS (
    SELECT
        g.worker_id,
        s.stamp_ns - lag(s.stamp_ns) OVER (
            PARTITION BY s.evidence_id, s.stream, g.start_offset, g.worker_id
            ORDER BY s.byte_offset
        ) AS step_ns
    FROM stamped AS s
    JOIN segment AS g
        ON g.evidence_id = s.evidence_id AND g.stream = s.stream
        AND s.byte_offset >= g.start_offset AND s.byte_offset < g.end_offset
    WHERE s.stamp_ns IS NOT NULL
)
SELECT worker_id, greatest(0, -coalesce(min(step_ns), 0)) AS back_ns
FROM neighbour
GROUP BY worker_id
ORDER BY worker_id
