-- question:  Which earlier uses of the pool may a stale hand-off have shown, with what weight?
-- inputs:    stale_recipient, decode_use
-- params:    $listed  rows per recipient; the others are folded into one row
-- grain:     one row per (response_id, source_use_id); source_use_id NULL is the remainder
-- columns:   response_id    BIGINT  the recipient
--            source_use_id  BIGINT  an earlier use of the same pool; NULL for the remainder
--            n_others       BIGINT  uses folded into the row (1 for a named one)
--            weight         DOUBLE  probability that at least one of its pages was attended
--            pages          BIGINT  expected number of its pages among those taken, rounded
-- assumes:   order inside an epoch is unknown: pages are exchangeable
-- misses:    sources in the prefill pool (the stub page), which no log names
WITH taken AS (
    SELECT
        s.response_id, s.pool_pages, s.page_size,
        d.worker_id, d.epoch, d.dp, d.use_id,
        coalesce(d.alloc_lo, d.received_lo, d.first_ns) AS at_lo,
        coalesce(d.alloc_hi, d.ended_lo, d.received_hi, d.first_ns) AS at_hi,
        least((d.prompt_high + s.page_size - 1) // s.page_size, s.pool_pages) AS n_pages
    FROM stale_recipient AS s
    JOIN decode_use AS d USING (use_id)
    WHERE s.pool_pages > 0 AND s.page_size > 0 AND d.prompt_high > 0
),
owner AS (
    SELECT
        use_id, worker_id, epoch, dp,
        coalesce(alloc_lo, received_lo, first_ns) AS began,
        coalesce(failed_lo, ended_lo) AS ended,
        prompt_high + coalesce(output_high, 0) AS n_tokens,
        coalesce(output_high, 0) > 0 OR commit_lo IS NOT NULL AS wrote
    FROM decode_use
    WHERE prompt_high > 0
),
pair AS (
    SELECT
        t.response_id, t.pool_pages, t.n_pages, o.use_id AS source_use_id, o.ended,
        least((o.n_tokens + t.page_size - 1) // t.page_size, t.pool_pages) AS owner_pages,
        sum((o.n_tokens + t.page_size - 1) // t.page_size) OVER (
            PARTITION BY t.response_id ORDER BY o.began DESC, o.use_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS handed_out_since
    FROM taken AS t
    JOIN owner AS o
        ON o.worker_id = t.worker_id AND o.epoch = t.epoch
        AND (o.dp = t.dp OR o.dp IS NULL OR t.dp IS NULL)
        AND o.use_id <> t.use_id
        AND o.began < t.at_hi
    WHERE o.wrote AND (o.ended IS NULL OR o.ended <= t.at_hi)
),
weighed AS (
    SELECT
        response_id, source_use_id,
        owner_pages * pow(1 - 1.0 / pool_pages, coalesce(handed_out_since, 0)) AS remaining,
        n_pages / pool_pages AS share
    FROM pair
),
ranked AS (
    SELECT
        response_id, source_use_id,
        1 - pow(greatest(1 - share, 1e-12), remaining) AS weight,
        remaining * share AS expected_pages,
        row_number() OVER (
            PARTITION BY response_id ORDER BY remaining DESC, source_use_id
        ) AS place
    FROM weighed
)
SELECT response_id, source_use_id, 1 AS n_others, weight, round(expected_pages)::BIGINT AS pages
FROM ranked
WHERE place <= $listed
UNION ALL
SELECT
    response_id, NULL, count(*),
    1 - exp(sum(ln(greatest(1 - weight, 1e-12)))),
    round(sum(expected_pages))::BIGINT
FROM ranked
WHERE place > $listed
GROUP BY response_id
ORDER BY response_id, weight DESC, source_use_id
