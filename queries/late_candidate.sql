-- question:  Which responses may have owned pages of an aborted request while its write could land?
-- inputs:    decode_use, late_trigger, decode_policy
-- params:    $never  largest time, ns: the end of a use that no line ends
-- grain:     one row per (use_id, trigger_id)
-- columns:   use_id        BIGINT   the candidate recipient
--            trigger_id    BIGINT   use_id of the aborted request: the source
--            delay_ns      BIGINT   from the release to the candidate's allocation; negative if the
--                                   candidate held its prompt pages before; NULL if unknown
--            write_gap_ns  BIGINT   from the release to the end of the candidate's own transfer;
--                                   NULL if unknown
--            n_pages       BIGINT   pages that the candidate may have taken after the release
--            n_prompt_pages BIGINT  of these, pages of its prompt
--            trigger_pages BIGINT   pages that the aborted request gave back; NULL if unknown
--            beyond_bound  BOOLEAN  only a send failure line keeps the pair possible
-- assumes:   both sides stand on the decode worker's own clock; ownership is exclusive: who held its
--            prompt pages before the release and took none afterwards cannot own a released page
-- misses:    pages taken early by speculative decoding (excluded from the growth rule)
WITH candidate AS (
    SELECT
        d.use_id, d.worker_id, d.epoch, d.dp, d.room, d.rid, d.alloc_lo, d.alloc_hi,
        d.commit_hi,
        coalesce(d.alloc_lo, d.received_lo, d.first_ns) AS start_lo,
        CASE
            WHEN d.has_end AND d.ended_hi IS NOT NULL THEN d.ended_hi
            WHEN d.failed_hi IS NOT NULL THEN greatest(d.failed_hi, coalesce(d.timeout_hi, 0))
            ELSE $never
        END AS end_hi,
        CASE WHEN d.prompt_low = d.prompt_high THEN d.prompt_high END AS n_tokens,
        d.output_high,
        o.page_size,
        o.growth_by_count,
        CASE WHEN o.page_size > 0 AND d.prompt_high > 0
            THEN (d.prompt_high + o.page_size - 1) // o.page_size END AS prompt_pages,
        CASE WHEN o.page_size > 0 AND d.prompt_high > 0 AND d.output_high IS NOT NULL
            THEN (d.prompt_high + d.output_high + o.page_size - 1) // o.page_size
                - (d.prompt_high + o.page_size - 1) // o.page_size END AS growth_pages
    FROM decode_use AS d
    JOIN decode_policy AS o ON o.worker_id = d.worker_id AND o.epoch = d.epoch
    WHERE coalesce(d.output_high, 2) > 1
        AND NOT (coalesce(d.output_high, 0) = 0
            AND (d.failed_lo IS NOT NULL OR d.handshake_lo IS NOT NULL))
),
pair AS (
    SELECT
        c.*,
        t.use_id AS trigger_id,
        t.window_lo, t.held_until, t.beyond_bound,
        CASE WHEN c.page_size > 0 AND t.n_tokens > 0
            THEN (t.n_tokens + c.page_size - 1) // c.page_size END AS trigger_pages,
        coalesce(c.alloc_hi < t.held_until, false) AS held_before
    FROM candidate AS c
    JOIN late_trigger AS t
        ON t.worker_id = c.worker_id AND t.epoch = c.epoch
        AND (t.dp = c.dp OR t.dp IS NULL OR c.dp IS NULL)
        AND t.use_id <> c.use_id
        AND c.start_lo <= t.window_hi
        AND c.end_hi >= t.window_lo
)
SELECT
    use_id,
    trigger_id,
    alloc_lo - window_lo AS delay_ns,
    commit_hi - window_lo AS write_gap_ns,
    CASE WHEN held_before THEN growth_pages ELSE prompt_pages + coalesce(growth_pages, 0) END
        AS n_pages,
    CASE WHEN held_before THEN 0 ELSE prompt_pages END AS n_prompt_pages,
    trigger_pages,
    beyond_bound
FROM pair
WHERE NOT (held_before AND growth_by_count AND growth_pages = 0)
