-- question:  Which version-dependent spellings does each worker print?
-- inputs:    evidence, segment, worker_stream, time_stats, batch_line, config_entry, request_log,
--            engine_event, metric
-- grain:     one row per (worker_id, epoch, marker)
-- columns:   worker_id  INTEGER  worker
--            epoch      INTEGER  boot epoch; NULL where the line belongs to no one epoch (metrics)
--            marker     VARCHAR  name of the marker (forensics/knowledge/dialect.toml)
-- assumes:   one build per boot epoch
-- misses:    builds that print none of these
WITH live AS (
    SELECT evidence_id FROM evidence WHERE "current"
),
marked AS (
    SELECT evidence_id, stream, byte_offset,
        CASE spelling WHEN 'ReqTimeStats' THEN 'time_stats:compact' ELSE 'time_stats:spaced' END
            AS marker
    FROM time_stats
    UNION ALL
    SELECT evidence_id, stream, byte_offset, 'time_stats:attempts'
    FROM time_stats WHERE attempts IS NOT NULL
    UNION ALL
    SELECT evidence_id, stream, byte_offset,
        CASE WHEN kind = 'prefill' AND key = 'prealloc-req' THEN 'batch:prefill-prealloc-req'
            ELSE 'batch:' || key END
    FROM (
        SELECT evidence_id, stream, byte_offset, kind, unnest(string_split(dialect, ',')) AS key
        FROM (
            SELECT evidence_id, stream, kind, dialect, min(byte_offset) AS byte_offset
            FROM batch_line
            GROUP BY ALL
        )
    )
    WHERE key <> ''
    UNION ALL
    SELECT DISTINCT evidence_id, stream, byte_offset, 'server_args:' || dialect
    FROM config_entry WHERE source = 'server_args'
    UNION ALL
    SELECT evidence_id, stream, byte_offset, 'server_args.key:' || key
    FROM config_entry WHERE source = 'server_args'
    UNION ALL
    SELECT evidence_id, stream, byte_offset,
        CASE WHEN prefixed THEN 'request_json:prefixed' ELSE 'request_json:bare' END
    FROM request_log WHERE fmt = 'json' AND prefixed IS NOT NULL
    UNION ALL
    SELECT evidence_id, stream, byte_offset, 'request_log:received_openai'
    FROM request_log WHERE event = 'received_openai'
    UNION ALL
    SELECT evidence_id, stream, byte_offset, 'event:' || kind FROM engine_event
)
SELECT g.worker_id, g.epoch, m.marker
FROM marked AS m
JOIN live USING (evidence_id)
JOIN segment AS g
    ON g.evidence_id = m.evidence_id AND g.stream = m.stream
    AND m.byte_offset >= g.start_offset AND m.byte_offset < g.end_offset
GROUP BY ALL
UNION ALL
SELECT s.worker_id, NULL, 'metric:' || m.name
FROM (SELECT DISTINCT evidence_id, stream, name FROM metric) AS m
JOIN live USING (evidence_id)
JOIN worker_stream AS s ON s.evidence_id = m.evidence_id AND s.stream = m.stream
GROUP BY ALL
ORDER BY ALL
