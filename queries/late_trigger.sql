-- question:  Which decode uses may have given their pages back while a write was outstanding?
-- inputs:    decode_use, handoff, prefill_use, decode_policy, http_refusal
-- params:    $never         largest time, ns: the end of a window that nothing bounds
--            $longest_wait  longest time that a use waits for its transfer, ns: bootstrap plus
--                           waiting timeout
-- grain:     one row per decode use that may have done so
-- columns:   use_id       BIGINT   the aborted or failed use: the source
--            worker_id    INTEGER  decode worker
--            epoch        INTEGER  its boot epoch
--            dp           SMALLINT DP rank; NULL if unknown
--            room         UBIGINT  its room
--            rid          VARCHAR  its request id
--            certainty    VARCHAR  'failed' a line says that the transfer failed; 'unfinished' the
--                                  use ended without an answer and without such a line; 'vanished'
--                                  no line says how it ended
--            n_tokens     BIGINT   its prompt length; NULL if unknown
--            held_until   BIGINT   it certainly held its pages until then, worker axis ns
--            window_lo    BIGINT   earliest time at which a foreign write may land
--            window_hi    BIGINT   latest time by the planning bound
--            beyond_bound BOOLEAN  a send failure line says that nothing bounds the write
--            timed_out    BOOLEAN  a deferred release gave up waiting
--            refs         VARCHAR[] evidence
-- assumes:   the 'Decode transfer failed' line is written in the pass that frees the pages
--            (engine-telemetry.md, section 5.3); nothing was written for a use that failed in the
--            handshake; a prefill that reports megabytes sent had ended its transfer; a prefill
--            whose ReqTimeStats show no forward pass sent nothing
-- misses:    uses whose every line is lost
WITH ended AS (
    SELECT
        d.*,
        p.sent_mb AS p_sent_mb,
        p.failed_reason AS p_failed_reason,
        o.reach_ns,
        o.deferred_proven,
        coalesce(d.output_high, 0) > 0 OR d.commit_lo IS NOT NULL AS committed,
        -- Prefill refused the request or dropped it before its forward pass: no page was ever sent.
        coalesce(NOT p.forwarded AND p.output_high = 0, false)
            OR coalesce(p.validator IS NOT NULL AND p.finish_type = 'abort', false)
            OR d.use_id IN (SELECT use_id FROM http_refusal) AS nothing_sent,
        regexp_matches(
            coalesce(d.failed_reason, '') || ' ' || coalesce(p.failed_reason, ''),
            'Failed to send|Failed to get kvcache|timeout|timed out after|is not alive|transport'
        ) AS send_failed
    FROM decode_use AS d
    JOIN decode_policy AS o ON o.worker_id = d.worker_id AND o.epoch = d.epoch
    LEFT JOIN handoff AS h USING (use_id)
    LEFT JOIN prefill_use AS p
        ON p.room = d.room AND p.worker_id = h.prefill_worker_id AND p.rid = h.prefill_rid
        AND NOT h.ambiguous
),
classed AS (
    SELECT
        *,
        CASE
            WHEN nothing_sent THEN NULL
            WHEN failed_lo IS NOT NULL OR timeout_lo IS NOT NULL THEN 'failed'
            WHEN committed OR handshake_lo IS NOT NULL OR coalesce(p_sent_mb, 0) > 0 THEN NULL
            WHEN has_end AND alloc_lo IS NULL AND has_stats THEN NULL
            WHEN has_end THEN 'unfinished'
            ELSE 'vanished'
        END AS certainty
    FROM ended
)
SELECT
    use_id, worker_id, epoch, dp, room, rid, certainty,
    prompt_high AS n_tokens,
    CASE
        WHEN certainty = 'failed' THEN least(failed_lo, coalesce(timeout_lo, failed_lo))
        WHEN certainty = 'unfinished' THEN ended_lo
        ELSE ended_lo
    END AS held_until,
    coalesce(failed_lo, timeout_lo, ended_lo, alloc_lo, received_lo, first_ns) AS window_lo,
    CASE
        WHEN send_failed THEN $never
        WHEN certainty = 'failed' THEN greatest(
            coalesce(failed_hi, 0), coalesce(timeout_hi, 0)
        ) + reach_ns
        WHEN ended_hi IS NOT NULL THEN ended_hi + reach_ns
        ELSE coalesce(received_hi, first_ns) + $longest_wait + reach_ns
    END AS window_hi,
    send_failed AS beyond_bound,
    timeout_lo IS NOT NULL AS timed_out,
    refs
FROM classed
WHERE certainty IS NOT NULL AND NOT deferred_proven
