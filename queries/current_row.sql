-- question:  Which worker, role and boot epoch does each request-bearing line belong to?
-- inputs:    evidence, segment, worker, time_stats, request_log, engine_event
-- grain:     one row per raw row of the three tables that names a request
-- columns:   worker_id     INTEGER  worker that wrote the line
--            role          VARCHAR  its role: prefill, decode, unified, unknown
--            epoch         INTEGER  boot epoch (starts recorded before the line)
--            source        VARCHAR  'stats', 'received', 'finished' or the engine event's kind
--            evidence_id   INTEGER  file
--            byte_offset   BIGINT   offset of the line
--            stamp_ns      BIGINT   the line's stamp, naive
--            stamp_res_ns  BIGINT   its width
--            outer_ns      BIGINT   the collector's stamp, epoch
--            dp            SMALLINT DP rank
--            rid           VARCHAR  request id on this worker
--            room          UBIGINT  bootstrap room; NULL if the line names none
--            stats         STRUCT   fields of a ReqTimeStats line
--            log           STRUCT   fields of a request-logger row
--            event         STRUCT   fields of an engine event
-- assumes:   streams were assigned to workers (forensics/identity.py)
-- misses:    streams that belong to no worker
WITH live AS (
    SELECT evidence_id FROM evidence WHERE "current"
),
named AS (
    SELECT
        evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, outer_ns, role AS row_role,
        'stats' AS source, dp, rid, room,
        {'input_len': input_len, 'cached_len': cached_input_len, 'output_len': output_len,
            'bootstrap_ms': bootstrap_ms, 'alloc_wait_ms': alloc_wait_ms,
            'prealloc_ms': coalesce(prealloc_queue_ms, bootstrap_queue_ms),
            'transfer_ms': transfer_ms, 'queue_ms': queue_ms, 'forward_ms': forward_ms,
            'entry_ns': entry_ns, 'total_mb': transfer_total_mb,
            'speed_gb_s': transfer_speed_gb_s} AS stats,
        NULL AS log, NULL AS event
    FROM time_stats
    UNION ALL BY NAME
    SELECT
        evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, outer_ns,
        CASE WHEN event = 'received_openai' THEN 'received' ELSE event END AS source,
        coalesce(dp_rank, routed_dp_rank)::SMALLINT AS dp, rid, room,
        {'prompt_tokens': prompt_tokens, 'completion_tokens': completion_tokens,
            'cached_tokens': cached_tokens, 'finish_type': finish_type,
            'finish_message': finish_message, 'status_code': status_code,
            'x_request_id': x_request_id, 'keys': keys, 'bootstrap_host': bootstrap_host,
            'bootstrap_port': bootstrap_port, 'streaming': streaming,
            'received_ns': request_received_ns, 'finished_ns': request_finished_ns,
            'sent_ns': response_sent_ns, 'num_retractions': num_retractions,
            'prompt_ids': prompt_ids, 'model': model, 'fmt': fmt} AS log
    FROM request_log
    WHERE event <> 'received_openai'
    UNION ALL BY NAME
    SELECT
        evidence_id, stream, byte_offset, stamp_ns, stamp_res_ns, outer_ns, role_hint AS row_role,
        kind AS source, dp, rid, room,
        {'n1': n1, 'n2': n2, 'reason': reason, 'peer_room': peer_room} AS event
    FROM engine_event
    WHERE rid IS NOT NULL OR room IS NOT NULL
)
SELECT
    g.worker_id,
    CASE WHEN w.role IN ('prefill', 'decode') THEN w.role ELSE coalesce(row_role, w.role) END
        AS role,
    g.epoch,
    source, n.evidence_id, byte_offset, stamp_ns, stamp_res_ns, outer_ns, dp, rid, room,
    stats, log, event
FROM named AS n
JOIN live USING (evidence_id)
JOIN segment AS g
    ON g.evidence_id = n.evidence_id AND g.stream = n.stream
    AND n.byte_offset >= g.start_offset AND n.byte_offset < g.end_offset
    AND (g.role_filter IS NULL OR g.role_filter = n.row_role)
JOIN worker AS w ON w.worker_id = g.worker_id
