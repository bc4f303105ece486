-- question:  Which uses of a decode pool attended pages not written in time, or were written late?
-- inputs:    page_stretch, page_request, page_extent, page_write
-- params:    $slack_ns  bound on the offset between the clocks of two hosts
-- grain:     one row per owner_id that is suspected, or whose coverage by traces is not complete
-- columns:   owner_id        BIGINT   the use
--            pool_id         BIGINT   decode pool
--            room            UBIGINT  bootstrap room
--            rid             VARCHAR  request id
--            use_no          BIGINT   use of the room
--            n_prompt_pages  HUGEINT  pages that the transfer had to fill
--            pages_on_time   HUGEINT  of these, filled by sends of its own that succeeded before the
--                                     commit; of several sending ranks, the least
--            sent_tokens     HUGEINT  tokens those sends carried; NULL if not recorded
--            prompt_tokens   HUGEINT  tokens of the prompt on decode
--            resent          BOOLEAN  own sends overlap: pages_on_time may count a page twice
--            stale           BOOLEAN  it attended (or may have) pages without an own write in time;
--                                     NULL: the trace does not tell
--            late            VARCHAR  'definite', 'possible' (only within the slack), 'open' (an own
--                                     write never ended); NULL: every own write ended while it owned
--            last_write_ns   BIGINT   end of its last ended write, prefill's clock
--            coverage        VARCHAR  'whole'; 'untraced': no send for it in any trace; else what is
--                                     missing: 'rejects or no header', 'events lost', 'no page ids',
--                                     'no token counts'
-- assumes:   in time is causal: a send that succeeded comes before the commit of the same use;
--            ownership is exclusive, so only a write outside its own ownership can hit another
-- misses:    sends of a prefill rank that has no trace, where other ranks of the same worker have
WITH own_send AS (
    SELECT * FROM page_write WHERE kind = 'send' AND owner_id IS NOT NULL
),
in_time AS (
    SELECT s.owner_id, s.src_pool_id, s.src_tp,
        sum(least(s.start_page + s.n_pages, x.start_page + x.n_pages)
            - greatest(s.start_page, x.start_page)) AS n_pages
    FROM own_send AS s
    JOIN page_extent AS x
        ON x.owner_id = s.owner_id AND NOT x.is_growth
        AND x.start_page < s.start_page + s.n_pages AND s.start_page < x.start_page + x.n_pages
    WHERE s.ok
    GROUP BY s.owner_id, s.src_pool_id, s.src_tp
),
-- A sending rank none of whose sends succeeded covers nothing.
sender AS (
    SELECT s.owner_id, s.src_pool_id, s.src_tp,
        any_value(coalesce(t.n_pages, 0)) AS n_pages,
        bool_or(s.overlaps) AS resent,
        max(s.t_end) AS last_write_ns,
        bool_or(s.t_end IS NULL) AS is_open,
        max(s.n_candidates) > 1 AS is_ambiguous
    FROM (
        SELECT *,
            start_page < max(start_page + n_pages) OVER (
                PARTITION BY owner_id, src_pool_id, src_tp ORDER BY start_page, event_no
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) IS TRUE AS overlaps
        FROM own_send
    ) AS s
    LEFT JOIN in_time AS t
        ON t.owner_id = s.owner_id AND t.src_pool_id = s.src_pool_id
        AND t.src_tp IS NOT DISTINCT FROM s.src_tp
    GROUP BY s.owner_id, s.src_pool_id, s.src_tp
),
whole_pool AS (
    SELECT pool_id, bool_and(is_whole) AS is_whole FROM page_stretch GROUP BY pool_id
),
-- Events of a use whose allocation is missing show that the recorder lost some.
lossy_pool AS (
    SELECT pool_id FROM page_request WHERE t_alloc IS NULL GROUP BY pool_id
),
lost_session AS (
    SELECT DISTINCT dst_session AS session FROM page_write WHERE kind = 'send' AND owner_id IS NULL
),
sent AS (
    SELECT
        s.owner_id,
        min(s.n_pages) AS n_pages,
        bool_or(s.resent) AS resent,
        max(s.last_write_ns) AS last_write_ns,
        bool_or(s.is_open) AS is_open,
        bool_or(s.is_ambiguous) AS is_ambiguous,
        bool_and(w.is_whole) AS is_whole,
        bool_or(l.pool_id IS NOT NULL) AS is_lossy
    FROM sender AS s
    JOIN whole_pool AS w ON w.pool_id = s.src_pool_id
    LEFT JOIN lossy_pool AS l ON l.pool_id = s.src_pool_id
    GROUP BY s.owner_id
),
-- Tokens of each chunk once, whatever the number of sending TP ranks and of sends.
sent_chunk AS (
    SELECT owner_id, src_pool_id, chunk, start_page, min(tokens) AS tokens,
        bool_or(tokens IS NULL) AS is_unknown
    FROM own_send
    WHERE ok AND extent_no = 0
    GROUP BY owner_id, src_pool_id, chunk, start_page
),
sent_prompt AS (
    SELECT owner_id, min(tokens) AS tokens
    FROM (
        SELECT owner_id, src_pool_id,
            CASE WHEN NOT bool_or(is_unknown) THEN sum(tokens) END AS tokens
        FROM sent_chunk
        GROUP BY owner_id, src_pool_id
    )
    GROUP BY owner_id
    HAVING count(*) = count(tokens)
),
judged AS (
    SELECT
        r.owner_id, r.pool_id, r.room, r.rid, r.use_no, r.n_prompt_pages,
        coalesce(s.n_pages, 0) AS pages_on_time,
        k.tokens AS sent_tokens,
        r.prompt_tokens,
        coalesce(s.resent, false) AS resent,
        s.last_write_ns,
        CASE
            WHEN NOT coalesce(r.has_pages, false) THEN 'no page ids'
            WHEN s.owner_id IS NULL THEN 'untraced'
            WHEN NOT s.is_whole OR NOT w.is_whole THEN 'rejects or no header'
            WHEN k.tokens IS NULL AND s.n_pages > 0 OR r.prompt_tokens IS NULL
                THEN 'no token counts'
            WHEN s.is_lossy OR l.pool_id IS NOT NULL OR z.session IS NOT NULL
                OR s.is_ambiguous THEN 'events lost'
            ELSE 'whole'
        END AS coverage,
        CASE
            WHEN NOT r.attended THEN false
            WHEN s.owner_id IS NULL OR NOT coalesce(r.has_pages, false) THEN NULL
            WHEN r.t_commit IS NULL AND r.attended IS NULL THEN NULL
            WHEN s.n_pages < r.n_prompt_pages OR s.resent THEN true
            -- A page can be there and hold fewer tokens than are attended: NULL if not recorded.
            ELSE k.tokens < r.prompt_tokens
        END AS stale,
        CASE
            WHEN s.last_write_ns - $slack_ns >= r.t_free THEN 'definite'
            WHEN s.is_open AND r.t_free IS NOT NULL THEN 'open'
            WHEN s.last_write_ns + $slack_ns >= r.t_free THEN 'possible'
        END AS late
    FROM page_request AS r
    JOIN whole_pool AS w ON w.pool_id = r.pool_id
    LEFT JOIN lossy_pool AS l ON l.pool_id = r.pool_id
    LEFT JOIN lost_session AS z ON z.session = r.session
    LEFT JOIN sent AS s ON s.owner_id = r.owner_id
    LEFT JOIN sent_prompt AS k ON k.owner_id = r.owner_id
    WHERE r.role <> 'prefill'
)
SELECT
    owner_id, pool_id, room, rid, use_no, n_prompt_pages, pages_on_time, sent_tokens,
    prompt_tokens, resent, stale, late, last_write_ns, coverage
FROM judged
WHERE stale IS NOT FALSE OR late IS NOT NULL OR coverage <> 'whole'
