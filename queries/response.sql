-- question:  What do both roles record of every response?
-- inputs:    decode_use, prefill_use, handoff, bootstrap_worker, router_request, http_refusal
-- grain:     one row per decode-side use of a room, plus one per room that only prefill recorded
-- columns:   response_id        BIGINT   number of the response
--            decode_worker_id   INTEGER  decode worker; NULL if no decode log names the room
--            prefill_worker_id  INTEGER  prefill worker; NULL if unknown
--            prefill_seen       BOOLEAN  a prefill record of this use exists
--            p_*                         the prefill side's columns of use.sql
--            http_status        INTEGER  status that the router answered
--            http_refused       BOOLEAN  decode's HTTP layer refused it before any page was taken
--            request_id         VARCHAR  id that the client or router gave
--            ...                         the decode side's columns of use.sql
-- assumes:   x-request-id is the router's request_id
-- misses:    requests that never reached a worker
WITH orphan AS (
    SELECT p.*
    FROM prefill_use AS p
    WHERE NOT EXISTS (SELECT 1 FROM decode_use AS d WHERE d.room = p.room)
),
side AS (
    SELECT
        d.* EXCLUDE (worker_id, role),
        d.worker_id AS decode_worker_id,
        coalesce(h.prefill_worker_id, b.worker_id) AS prefill_worker_id,
        h.use_id IS NOT NULL AS prefill_seen,
        coalesce(h.ambiguous, false) AS ambiguous,
        p.rid AS p_rid, p.dp AS p_dp, p.epoch AS p_epoch, p.prompt_low AS p_prompt_low,
        p.prompt_high AS p_prompt_high, p.output_high AS p_output_high, p.sent_mb AS p_sent_mb,
        p.has_stats AS p_has_stats, p.forwarded AS p_forwarded, p.has_end AS p_has_end, p.validator AS p_validator,
        p.rejected_tokens AS p_rejected_tokens, p.rejected_limit AS p_rejected_limit,
        p.finish_type AS p_finish_type, p.finish_message AS p_finish_message,
        p.status_code AS p_status_code, p.failed_reason AS p_failed_reason,
        p.x_request_id AS p_x_request_id, p.keys AS p_keys, p.refs AS p_refs,
        p.ended_hi AS p_ended_hi
    FROM decode_use AS d
    LEFT JOIN handoff AS h USING (use_id)
    LEFT JOIN prefill_use AS p
        ON p.room = d.room AND p.worker_id = h.prefill_worker_id AND p.rid = h.prefill_rid
    LEFT JOIN bootstrap_worker AS b ON b.bootstrap = d.bootstrap
    UNION ALL BY NAME
    SELECT
        room, turn AS attempt, n_uses,
        worker_id AS prefill_worker_id, true AS prefill_seen, false AS ambiguous,
        first_ns, received_lo, received_hi,
        rid AS p_rid, dp AS p_dp, epoch AS p_epoch, prompt_low AS p_prompt_low,
        prompt_high AS p_prompt_high, output_high AS p_output_high, sent_mb AS p_sent_mb,
        has_stats AS p_has_stats, forwarded AS p_forwarded, has_end AS p_has_end, validator AS p_validator,
        rejected_tokens AS p_rejected_tokens, rejected_limit AS p_rejected_limit,
        finish_type AS p_finish_type, finish_message AS p_finish_message,
        status_code AS p_status_code, failed_reason AS p_failed_reason,
        x_request_id AS p_x_request_id, keys AS p_keys, refs AS p_refs,
        ended_hi AS p_ended_hi
    FROM orphan
),
named AS (
    SELECT *, coalesce(x_request_id, p_x_request_id) AS request_id FROM side
)
SELECT
    row_number() OVER (ORDER BY n.room, n.attempt, n.decode_worker_id, n.rid, n.p_rid)
        AS response_id,
    n.*,
    q.status_code AS http_status,
    q.refs AS router_refs,
    f.use_id IS NOT NULL AS http_refused
FROM named AS n
LEFT JOIN http_refusal AS f ON f.use_id = n.use_id
LEFT JOIN router_request AS q ON q.request_id = n.request_id
