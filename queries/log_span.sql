-- question:  Over which time does each worker's process log speak, and does it hold its start?
-- inputs:    segment, time_stats, engine_event, batch_line, worker_clock
-- params:    $silence_ns  shortest silence that is listed, ns
-- grain:     one row per (worker_id, epoch)
-- columns:   worker_id   INTEGER  worker
--            epoch       INTEGER  boot epoch
--            first_ns    BIGINT   first stamped line of the process log, worker axis
--            last_ns     BIGINT   last one, upper end
--            lines       BIGINT   stamped lines
--            has_boot    BOOLEAN  the start of this epoch is in the log
--            has_stats   BOOLEAN  ReqTimeStats lines are printed
--            silences    STRUCT(lo BIGINT, hi BIGINT)[] silences longer than $silence_ns
--            refs        VARCHAR[] first and last line, 'file:offset'
-- assumes:   evidence files of one worker do not interleave in time within an epoch
-- misses:    lines that were lost one by one
WITH stamped AS (
    SELECT evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, 'stats' AS kind
    FROM time_stats
    UNION ALL
    SELECT evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, kind FROM engine_event
    UNION ALL
    SELECT evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, 'batch' FROM batch_line
),
placed AS (
    SELECT
        g.worker_id, g.epoch, s.kind,
        s.stamp_ns - c.zone_ns AS t_ns,
        s.stamp_ns - c.zone_ns + s.stamp_res_ns AS t_hi_ns,
        s.evidence_id::VARCHAR || ':' || s.byte_offset::VARCHAR AS ref
    FROM stamped AS s
    JOIN evidence AS e USING (evidence_id)
    JOIN segment AS g
        ON g.evidence_id = s.evidence_id AND g.stream = s.stream
        AND s.byte_offset >= g.start_offset AND s.byte_offset < g.end_offset
    JOIN worker_clock AS c ON c.worker_id = g.worker_id
    WHERE e."current" AND s.stamp_ns IS NOT NULL
),
spaced AS (
    SELECT *, t_ns - lag(t_ns) OVER (PARTITION BY worker_id, epoch ORDER BY t_ns) AS silence_ns
    FROM placed
)
SELECT
    worker_id,
    epoch,
    min(t_ns) AS first_ns,
    max(t_hi_ns) AS last_ns,
    count(*) AS lines,
    bool_or(kind = 'boot') AS has_boot,
    bool_or(kind = 'stats') AS has_stats,
    coalesce(
        list({'lo': t_ns - silence_ns, 'hi': t_ns} ORDER BY t_ns)
            FILTER (silence_ns > $silence_ns), []
    ) AS silences,
    [arg_min(ref, t_ns), arg_max(ref, t_ns)] AS refs
FROM spaced
GROUP BY worker_id, epoch
ORDER BY worker_id, epoch
