-- question:  What is recorded of each use of a room by each worker?
-- inputs:    current_row, worker_clock, epoch_start
-- grain:     one row per (worker_id, role, room, rid)
-- columns:   worker_id       INTEGER  worker
--            role            VARCHAR  prefill or decode (unknown and unified never hand off)
--            room            UBIGINT  bootstrap room, never 0
--            rid             VARCHAR  request id on this worker
--            epoch           INTEGER  boot epoch
--            dp              SMALLINT DP rank; NULL if no line says
--            first_ns        BIGINT   earliest time of any line or entry, worker axis
--            received_lo     BIGINT   arrival, lower end
--            received_hi     BIGINT   arrival, upper end
--            ended_lo        BIGINT   end of the answer, lower end
--            ended_hi        BIGINT   end of the answer, upper end
--            prompt_low      BIGINT   smallest recorded prompt length, tokens
--            prompt_high     BIGINT   largest recorded prompt length, tokens
--            output_low      BIGINT   smallest recorded number of output tokens
--            output_high     BIGINT   largest recorded number of output tokens
--            has_stats       BOOLEAN  a ReqTimeStats line is there
--            has_end         BOOLEAN  a ReqTimeStats or Finish line is there
--            alloc_lo        BIGINT   page allocation, lower end (ReqTimeStats)
--            alloc_hi        BIGINT   page allocation, upper end
--            commit_lo       BIGINT   end of the transfer, lower end; NULL if it never ended
--            commit_hi       BIGINT   end of the transfer, upper end
--            sent_mb         DOUBLE   megabytes that prefill says it sent
--            speed_gb_s      DOUBLE   transfer speed that prefill says
--            forwarded       BOOLEAN  ReqTimeStats shows a forward pass; NULL without the line
--            transfer_ms     DOUBLE   transfer duration on decode
--            failed_lo       BIGINT   'transfer failed' line, lower end
--            failed_hi       BIGINT   'transfer failed' line, upper end
--            failed_reason   VARCHAR  its reason
--            handshake_lo    BIGINT   'handshake failed' / 'bootstrap failed' line, lower end
--            timeout_lo      BIGINT   deferred release timed out, lower end
--            timeout_hi      BIGINT   deferred release timed out, upper end
--            detector        VARCHAR  kind of an in-engine detector line for this use
--            validator       VARCHAR  kind of a validator line for this use
--            rejected_tokens BIGINT   prompt length that a validator refused
--            rejected_limit  BIGINT   limit that it named
--            finish_type     VARCHAR  finish reason type
--            finish_message  VARCHAR  abort message
--            status_code     INTEGER  status code of an abort
--            x_request_id    VARCHAR  client request id
--            keys            VARCHAR  other identity fields, JSON
--            bootstrap       VARCHAR  bootstrap host:port of the prefill worker
--            streaming       BOOLEAN  the client asked for a stream
--            model           VARCHAR  model name
--            retractions     INTEGER  recorded retractions
--            refs            VARCHAR[] evidence: 'source|file:offset', in order
-- assumes:   decode: alloc = entry + bootstrap + alloc_wait, commit = alloc + transfer
--            (engine-telemetry.md, section 6); durations are rounded to 0.01 ms, entry to 1 ms
-- misses:    uses that left no line with a room
WITH line AS (
    SELECT
        r.*,
        r.stamp_ns - c.zone_ns - c.step_ns AS t_lo,
        r.stamp_ns - c.zone_ns + r.stamp_res_ns + c.step_ns AS t_hi,
        CASE
            WHEN stats.output_len > 0 OR stats.transfer_ms > 0 OR stats.alloc_wait_ms > 0
                OR stats.bootstrap_ms > 0 OR stats.forward_ms > 0
            THEN stats.entry_ns
        END AS entry_ns,
        1e6 * coalesce(stats.bootstrap_ms, 0) + 1e6 * coalesce(stats.alloc_wait_ms, 0)
            + 1e6 * coalesce(stats.prealloc_ms, 0) AS to_alloc_ns
    FROM current_row AS r
    JOIN worker_clock AS c USING (worker_id)
    WHERE coalesce(room, 0) <> 0 AND role IN ('prefill', 'decode')
        AND NOT starts_with(coalesce(rid, ''), 'HEALTH_CHECK')
),
room_of_rid AS (
    SELECT DISTINCT worker_id, rid, room FROM line WHERE rid IS NOT NULL
),
-- Lines that name only the rid (client gone, validators) belong to the room of that rid, if one.
by_rid AS (
    SELECT
        r.* EXCLUDE (room), k.room,
        r.stamp_ns - c.zone_ns - c.step_ns AS t_lo,
        r.stamp_ns - c.zone_ns + r.stamp_res_ns + c.step_ns AS t_hi,
        NULL::BIGINT AS entry_ns,
        NULL::DOUBLE AS to_alloc_ns
    FROM current_row AS r
    JOIN worker_clock AS c USING (worker_id)
    JOIN (
        SELECT worker_id, rid, any_value(room) AS room
        FROM room_of_rid
        GROUP BY worker_id, rid
        HAVING count(*) = 1
    ) AS k ON k.worker_id = r.worker_id AND k.rid = r.rid
    WHERE r.room IS NULL
),
-- Deferred-release lines name only the room: they belong to the latest use of it before them.
rid_of_room AS (
    SELECT worker_id, role, room, any_value(rid) AS rid
    FROM line
    WHERE rid IS NOT NULL
    GROUP BY worker_id, role, room
    HAVING count(DISTINCT rid) = 1
),
all_line AS (
    SELECT * REPLACE (coalesce(line.rid, k.rid, '') AS rid)
    FROM line
    LEFT JOIN rid_of_room AS k USING (worker_id, role, room)
    UNION ALL BY NAME
    SELECT * FROM by_rid
)
SELECT
    worker_id,
    role,
    room,
    rid,
    coalesce(
        max(a.epoch) FILTER (source IN ('stats', 'decode_transfer_failed')), max(a.epoch)
    )::INTEGER AS epoch,
    max(dp) AS dp,
    min(coalesce(entry_ns, t_lo)) AS first_ns,
    coalesce(
        min(log.received_ns), min(entry_ns), min(t_lo) FILTER (source = 'received')
    ) AS received_lo,
    coalesce(
        min(log.received_ns) + 1000, min(entry_ns) + 1000000,
        min(t_hi) FILTER (source = 'received')
    ) AS received_hi,
    coalesce(
        max(log.sent_ns), max(t_lo) FILTER (source = 'stats'),
        max(t_lo) FILTER (source = 'finished'), max(t_lo) FILTER (source = 'client_disconnected')
    ) AS ended_lo,
    coalesce(
        max(log.sent_ns) + 1000, max(t_hi) FILTER (source = 'stats'),
        max(t_hi) FILTER (source = 'finished'), max(t_hi) FILTER (source = 'client_disconnected')
    ) AS ended_hi,
    min(coalesce(stats.input_len, nullif(log.prompt_tokens, 0))) AS prompt_low,
    max(coalesce(stats.input_len, nullif(log.prompt_tokens, 0))) AS prompt_high,
    min(coalesce(stats.output_len, log.completion_tokens)) AS output_low,
    max(coalesce(stats.output_len, log.completion_tokens)) AS output_high,
    bool_or(source = 'stats') AS has_stats,
    bool_or(source IN ('stats', 'finished')) AS has_end,
    (min(entry_ns + to_alloc_ns) FILTER (
        role = 'decode' AND (stats.alloc_wait_ms > 0 OR stats.prealloc_ms > 0
        OR stats.transfer_ms > 0)
    ))::BIGINT - 1000000 AS alloc_lo,
    (max(entry_ns + to_alloc_ns) FILTER (
        role = 'decode' AND (stats.alloc_wait_ms > 0 OR stats.prealloc_ms > 0
        OR stats.transfer_ms > 0)
    ))::BIGINT + 2000000 AS alloc_hi,
    (min(entry_ns + to_alloc_ns + 1e6 * stats.transfer_ms) FILTER (
        role = 'decode' AND stats.transfer_ms > 0
    ))::BIGINT - 1000000 AS commit_lo,
    (max(entry_ns + to_alloc_ns + 1e6 * stats.transfer_ms) FILTER (
        role = 'decode' AND stats.transfer_ms > 0
    ))::BIGINT + 2000000 AS commit_hi,
    max(stats.total_mb) AS sent_mb,
    max(stats.speed_gb_s) AS speed_gb_s,
    bool_or(coalesce(stats.forward_ms, 0) > 0 OR stats.output_len > 0)
        FILTER (source = 'stats') AS forwarded,
    max(stats.transfer_ms) AS transfer_ms,
    min(t_lo) FILTER (source IN ('decode_transfer_failed', 'prefill_transfer_failed'))
        AS failed_lo,
    max(t_hi) FILTER (source IN ('decode_transfer_failed', 'prefill_transfer_failed'))
        AS failed_hi,
    min(event.reason) FILTER (source IN ('decode_transfer_failed', 'prefill_transfer_failed'))
        AS failed_reason,
    min(t_lo) FILTER (source IN ('decode_handshake_failed', 'prefill_bootstrap_failed'))
        AS handshake_lo,
    min(t_lo) FILTER (source IN ('deferred_timeout', 'deferred_failed')) AS timeout_lo,
    max(t_hi) FILTER (source IN ('deferred_timeout', 'deferred_failed')) AS timeout_hi,
    min(source) FILTER (
        source IN ('context_corruption', 'metadata_not_ready', 'checksum_mismatch')
    ) AS detector,
    min(source) FILTER (
        source IN ('input_too_long', 'finish_abort', 'truncated', 'reject_prefill')
    ) AS validator,
    max(event.n1) FILTER (source IN ('input_too_long', 'reject_prefill')) AS rejected_tokens,
    min(event.n2) FILTER (source IN ('input_too_long', 'reject_prefill')) AS rejected_limit,
    min(log.finish_type) AS finish_type,
    min(log.finish_message) AS finish_message,
    min(log.status_code) AS status_code,
    min(log.x_request_id) AS x_request_id,
    min(log.keys) AS keys,
    min(log.bootstrap_host || ':' || coalesce(log.bootstrap_port::VARCHAR, '')) AS bootstrap,
    bool_or(log.streaming) AS streaming,
    min(log.model) AS model,
    max(log.num_retractions) AS retractions,
    list_sort(list_distinct(list(
        source || '|' || evidence_id::VARCHAR || ':' || byte_offset::VARCHAR
    ))) AS refs
FROM all_line AS a
GROUP BY worker_id, role, room, rid
