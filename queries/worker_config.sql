-- question:  What did each worker say of its configuration, and where?
-- inputs:    evidence, segment, worker_stream, config_entry
-- grain:     one row per (worker_id, epoch, source, snapshot, dp, key)
-- columns:   worker_id  INTEGER  worker
--            epoch      INTEGER  boot epoch of a server_args line; NULL for snapshots
--            source     VARCHAR  server_args, server_info, loads, model_info
--            dp         SMALLINT DP rank of a per-rank key
--            key        VARCHAR  key
--            value      VARCHAR  value, JSON text
--            ref        VARCHAR  evidence 'file:offset'
-- assumes:   a later line of the same kind replaces an earlier one
-- misses:    what no process printed: environment variables above all
SELECT
    g.worker_id, g.epoch, c.source, c.dp, c.key,
    arg_max(c.value, c.byte_offset) AS value,
    arg_max(c.evidence_id::VARCHAR || ':' || c.byte_offset::VARCHAR, c.byte_offset) AS ref
FROM config_entry AS c
JOIN evidence AS e USING (evidence_id)
JOIN segment AS g
    ON g.evidence_id = c.evidence_id AND g.stream = c.stream
    AND c.byte_offset >= g.start_offset AND c.byte_offset < g.end_offset
WHERE e."current" AND c.source = 'server_args'
GROUP BY ALL
UNION ALL
SELECT
    s.worker_id, NULL, c.source, c.dp, c.key,
    arg_max(c.value, c.snapshot),
    arg_max(c.evidence_id::VARCHAR || ':' || c.byte_offset::VARCHAR, c.snapshot)
FROM config_entry AS c
JOIN evidence AS e ON coalesce(e.duplicate_of, e.evidence_id) = c.evidence_id
JOIN worker_stream AS s ON s.evidence_id = e.evidence_id AND s.stream = c.stream
WHERE (e."current" OR e.duplicate_of IS NOT NULL)
    AND c.source IN ('server_info', 'loads', 'model_info')
GROUP BY ALL
ORDER BY ALL
