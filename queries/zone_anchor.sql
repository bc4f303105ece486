-- question:  How far is each worker's naive local stamp from epoch time?
-- inputs:    current_row
-- grain:     one row per (worker_id, anchor)
-- columns:   worker_id  INTEGER  worker
--            anchor     VARCHAR  what ties the two together
--            n          BIGINT   lines that do
--            low_ns     BIGINT   5th percentile of stamp minus epoch
--            mid_ns     BIGINT   median of stamp minus epoch
--            high_ns    BIGINT   95th percentile of stamp minus epoch
-- assumes:   a ReqTimeStats line is written when the request completes: entry time plus the
--            durations (engine-telemetry.md, section 6); a Finish line when the answer was sent
-- misses:    workers whose lines carry no epoch time
WITH pair AS (
    SELECT
        worker_id, 'time_stats' AS anchor,
        stamp_ns - (
            stats.entry_ns + (1e6 * (
                coalesce(stats.bootstrap_ms, 0) + coalesce(stats.alloc_wait_ms, 0)
                + coalesce(stats.prealloc_ms, 0) + coalesce(stats.transfer_ms, 0)
                + coalesce(stats.queue_ms, 0) + coalesce(stats.forward_ms, 0)
            ))::BIGINT
        ) AS diff_ns
    FROM current_row
    WHERE source = 'stats' AND stamp_ns IS NOT NULL AND stats.entry_ns IS NOT NULL
        AND stats.output_len > 0 AND coalesce(stats.forward_ms, 0) > 0
    UNION ALL
    SELECT worker_id, 'request_log', stamp_ns - coalesce(log.sent_ns, log.finished_ns)
    FROM current_row
    WHERE source = 'finished' AND stamp_ns IS NOT NULL
        AND coalesce(log.sent_ns, log.finished_ns) IS NOT NULL
    UNION ALL
    SELECT worker_id, 'collector', stamp_ns - outer_ns
    FROM current_row
    WHERE stamp_ns IS NOT NULL AND outer_ns IS NOT NULL
)
SELECT
    worker_id,
    anchor,
    count(*) AS n,
    quantile_disc(diff_ns, 0.05) AS low_ns,
    quantile_disc(diff_ns, 0.5) AS mid_ns,
    quantile_disc(diff_ns, 0.95) AS high_ns
FROM pair
GROUP BY worker_id, anchor
ORDER BY worker_id, anchor
