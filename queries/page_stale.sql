-- question:  What did the pages hold that a use attended without an own write in time, and whose?
-- inputs:    page_suspect, page_request, page_extent, page_write
-- params:    $slack_ns  bound on the offset between the clocks of two hosts
-- grain:     one row per (owner_id, page_no, via, source_owner_id, depth)
-- columns:   owner_id         BIGINT   recipient: the use that attended the page
--            pool_id          BIGINT   its decode pool
--            room             UBIGINT  its bootstrap room
--            rid              VARCHAR  its request id
--            page_no          BIGINT   page of the decode pool
--            page_index       HUGEINT  page of the prompt, from 0
--            via              VARCHAR  'decode_pool': nothing of its own was written to the page;
--                                      'prefill_stub': the page came, but holds fewer own tokens
--                                      than are attended; 'decode_tail', 'prefill_tail': behind
--                                      the last token of the last writer
--            held_pool_id     BIGINT   pool that the content comes from (prefill's for a stub)
--            held_page_no     BIGINT   page there
--            depth            BIGINT   1: last writer; 2..: older ones; NULL: may have written
--            source_owner_id  BIGINT   use whose data it is; NULL: not known (no earlier write in the
--                                      trace, or a tail that a copied page carried along)
--            source_room      UBIGINT  its bootstrap room
--            source_kind      VARCHAR  kind of that write
--            tokens           HUGEINT  attended tokens of that source; NULL if not known
--            write_end_ns     BIGINT   end of that write, its own clock
--            definite         BOOLEAN  no other write could have come later, at any clock offset
--            coverage         VARCHAR  of the recipient, see page_suspect
-- assumes:   a transfer overwrites whole pages; a request that got n tokens wrote n-1 of them
-- misses:    whose tail a whole copied page carried along; more than 5 writers deep
WITH stale_use AS (
    SELECT r.owner_id, r.pool_id, r.host, r.room, r.rid, r.page_size, r.prompt_tokens,
        coalesce(r.t_commit, r.t_finish, r.t_free, 9223372036854775807) AS t_attend,
        s.sent_tokens, s.coverage
    FROM page_suspect AS s
    JOIN page_request AS r USING (owner_id)
    WHERE s.stale
),
prompt_page AS (
    SELECT owner_id, page_no, first_index + page_no - start_page AS page_index
    FROM (
        SELECT x.owner_id, x.start_page,
            sum(x.n_pages) OVER (
                PARTITION BY x.owner_id
                ORDER BY x.t_alloc, x.evidence_id, x.event_no, x.extent_no, x.start_page
                ROWS UNBOUNDED PRECEDING
            ) - x.n_pages AS first_index,
            unnest(range(x.start_page, x.start_page + x.n_pages)) AS page_no
        FROM page_extent AS x
        JOIN stale_use USING (owner_id)
        WHERE NOT x.is_growth
    )
),
own_send AS (
    SELECT w.owner_id, w.src_pool_id, w.src_tp, w.src_rid, w.ok,
        unnest(range(w.start_page, w.start_page + w.n_pages)) AS page_no
    FROM page_write AS w
    JOIN stale_use USING (owner_id)
    WHERE w.kind = 'send'
),
sender AS (
    SELECT owner_id, count(DISTINCT (src_pool_id, src_tp)) AS n_senders,
        min(src_pool_id) AS src_pool_id, min(src_rid) AS src_rid
    FROM own_send
    GROUP BY owner_id
),
own_page AS (
    SELECT owner_id, page_no, count(DISTINCT (src_pool_id, src_tp)) FILTER (ok) AS n_ok,
        bool_or(ok IS NOT TRUE) AS is_open
    FROM own_send
    GROUP BY owner_id, page_no
),
-- Slots [slot_lo, slot_hi) of each page: attended, but not filled by the use itself.
unfilled AS (
    SELECT *
    FROM (
        SELECT
            u.*, p.page_no, p.page_index, d.src_pool_id, d.src_rid,
            coalesce(o.is_open, false) AS is_open,
            coalesce(o.n_ok, 0) >= d.n_senders AS is_filled,
            CASE WHEN coalesce(o.n_ok, 0) < d.n_senders THEN 0
                ELSE greatest(0, least(
                    u.page_size, u.sent_tokens - p.page_index * u.page_size))
            END AS slot_lo,
            coalesce(greatest(0, least(
                u.page_size, u.prompt_tokens - p.page_index * u.page_size)), u.page_size
            ) AS slot_hi
        FROM stale_use AS u
        JOIN prompt_page AS p USING (owner_id)
        JOIN sender AS d USING (owner_id)
        LEFT JOIN own_page AS o ON o.owner_id = p.owner_id AND o.page_no = p.page_no
    )
    WHERE slot_lo < slot_hi OR slot_hi IS NULL AND NOT is_filled
),
prefill_page AS (
    SELECT u.owner_id, x.pool_id, x.owner_id AS prefill_owner_id, r.host, x.t_alloc,
        sum(x.n_pages) OVER (
            PARTITION BY u.owner_id, x.owner_id
            ORDER BY x.t_alloc, x.evidence_id, x.event_no, x.extent_no
            ROWS UNBOUNDED PRECEDING
        ) - x.n_pages - x.start_page AS shift,
        unnest(range(x.start_page, x.start_page + x.n_pages)) AS page_no
    FROM (SELECT DISTINCT owner_id, room, src_pool_id, src_rid FROM unfilled WHERE is_filled) AS u
    JOIN page_request AS r
        ON r.pool_id = u.src_pool_id AND r.room = u.room AND r.rid = u.src_rid
    JOIN page_extent AS x ON x.owner_id = r.owner_id
),
-- Where the content lies that was attended, and when it was taken.
held AS (
    SELECT *, 'decode_pool' AS via, pool_id AS held_pool_id, page_no AS held_page_no,
        owner_id AS self_id, t_attend AS t_taken
    FROM unfilled
    WHERE NOT is_filled
    UNION ALL BY NAME
    SELECT u.* REPLACE (f.host AS host), 'prefill_stub' AS via, f.pool_id AS held_pool_id,
        f.page_no AS held_page_no, f.prefill_owner_id AS self_id, f.t_alloc AS t_taken
    FROM unfilled AS u
    LEFT JOIN prefill_page AS f
        ON f.owner_id = u.owner_id AND f.page_no + f.shift = u.page_index
    WHERE u.is_filled
),
-- Only blocks of 16 pages that hold such a page are joined (performance.md, section 5).
held_block AS (
    SELECT *, held_page_no >> 4 AS block_no FROM held
),
write_block AS (
    SELECT w.*,
        unnest(range(w.start_page >> 4, ((w.start_page + w.n_pages - 1) >> 4) + 1)) AS block_no
    FROM page_write AS w
    WHERE w.pool_id IN (SELECT held_pool_id FROM held)
),
candidate AS (
    SELECT
        h.owner_id, h.page_no, h.via, h.t_taken, w.owner_id AS source_owner_id,
        w.room AS source_room, w.kind AS source_kind, h.held_page_no, w.t_end,
        w.evidence_id, w.event_no,
        coalesce(w.t_start, w.t_end) - slack_ns AS lo,
        coalesce(w.t_end + slack_ns, 9223372036854775807) AS hi,
        w.ok IS TRUE AND w.t_end - slack_ns <= h.t_taken AS is_landed
    FROM held_block AS h
    JOIN write_block AS w
        ON w.pool_id = h.held_pool_id AND w.block_no = h.block_no
        AND h.held_page_no >= w.start_page AND h.held_page_no < w.start_page + w.n_pages
        AND w.owner_id IS DISTINCT FROM h.self_id AND w.owner_id IS DISTINCT FROM h.owner_id
    CROSS JOIN LATERAL (SELECT
        CASE WHEN w.clock IS DISTINCT FROM h.host THEN $slack_ns::BIGINT ELSE 0 END AS slack_ns)
    WHERE coalesce(w.t_start, w.t_end, h.t_taken) - slack_ns <= h.t_taken
),
ranked AS (
    SELECT *,
        row_number() OVER place AS depth,
        coalesce(max(hi) OVER (
            PARTITION BY owner_id, page_no, via ORDER BY t_end DESC, evidence_id, event_no
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ), lo) > lo OR hi > t_taken AS is_contested
    FROM candidate
    WHERE is_landed
    WINDOW place AS (
        PARTITION BY owner_id, page_no, via ORDER BY t_end DESC, evidence_id, event_no
    )
    QUALIFY depth <= 5
),
-- The writers whose pages can be partly filled: where in its own text each page stands.
written_page AS (
    SELECT owner_id, page_size, start_page, n_pages, first_index - start_page AS shift,
        -- The last token is returned, not written. An output of unknown length counts as none.
        prompt_tokens + CASE WHEN is_prefill OR NOT attended THEN 0
            ELSE greatest(0, coalesce(output_tokens - 1, 0)) END AS own_tokens,
        NOT is_prefill AND attended IS NOT FALSE AND output_tokens IS NULL AS is_unknown
    FROM (
        SELECT x.owner_id, r.prompt_tokens, r.output_tokens, r.page_size, x.start_page,
            x.n_pages, r.role = 'prefill' AS is_prefill, r.attended,
            sum(x.n_pages) OVER (
                PARTITION BY x.owner_id
                ORDER BY x.t_alloc, x.evidence_id, x.event_no, x.extent_no, x.start_page
                ROWS UNBOUNDED PRECEDING
            ) - x.n_pages AS first_index
        FROM page_extent AS x
        JOIN page_request AS r USING (owner_id)
        WHERE x.owner_id IN (SELECT source_owner_id FROM ranked)
    )
),
layered AS (
    SELECT *,
        -- A transfer overwrites the whole page, and so may an output of unknown length.
        CASE WHEN source_kind = 'send' OR is_unknown THEN 9223372036854775807 ELSE own_fill END
            AS fill
    FROM (
        SELECT k.*, coalesce(g.is_unknown, false) AS is_unknown,
            CASE WHEN k.source_kind = 'growth' AND g.is_unknown THEN 9223372036854775807
                ELSE coalesce(greatest(0, least(g.page_size,
                    g.own_tokens - (k.held_page_no + g.shift) * g.page_size)),
                    9223372036854775807)
            END AS own_fill
        FROM ranked AS k
        LEFT JOIN written_page AS g
            ON g.owner_id = k.source_owner_id
            AND k.held_page_no >= g.start_page AND k.held_page_no < g.start_page + g.n_pages
    )
),
covered AS (
    SELECT *,
        coalesce(max(fill) OVER (
            PARTITION BY owner_id, page_no, via ORDER BY depth
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS covered_to
    FROM layered
),
-- Writes that may have come last: not ended, failed, not known to have happened, or ended while
-- the last writer was still writing (decode fills a page token by token).
possible AS (
    SELECT c.*
    FROM candidate AS c
    LEFT JOIN ranked AS k
        ON k.owner_id = c.owner_id AND k.page_no = c.page_no AND k.via = c.via AND k.depth = 1
    WHERE c.hi > coalesce(k.lo, c.lo)
        AND (NOT c.is_landed OR (c.evidence_id, c.event_no) <> (k.evidence_id, k.event_no))
),
contested AS (
    SELECT DISTINCT owner_id, page_no, via FROM possible
),
bottom AS (
    SELECT owner_id, page_no, via, max(fill) AS filled_to
    FROM layered
    GROUP BY owner_id, page_no, via
),
found AS (
    SELECT h.*, c.depth, c.source_owner_id, c.source_room, c.source_kind,
        greatest(0, least(h.slot_hi, c.own_fill) - greatest(h.slot_lo, c.covered_to)) AS n_tokens,
        c.t_end AS write_end_ns, NOT c.is_contested AS is_clear, false AS is_carried
    FROM held AS h
    JOIN covered AS c USING (owner_id, page_no, via)
    UNION ALL BY NAME
    -- Behind its own last token a copied page carries what the prefill page held before.
    SELECT h.*, c.depth + 1 AS depth,
        greatest(0, least(h.slot_hi, c.fill) - greatest(h.slot_lo, c.covered_to, c.own_fill))
            AS n_tokens,
        false AS is_clear, true AS is_carried
    FROM held AS h
    JOIN covered AS c USING (owner_id, page_no, via)
    WHERE c.own_fill < c.fill
    UNION ALL BY NAME
    SELECT h.*, NULL::BIGINT AS depth, p.source_owner_id, p.source_room, p.source_kind,
        NULL AS n_tokens, p.t_end AS write_end_ns, false AS is_clear
    FROM held AS h
    JOIN possible AS p USING (owner_id, page_no, via)
    UNION ALL BY NAME
    SELECT h.*, 1 AS depth,
        greatest(0, h.slot_hi - greatest(h.slot_lo, coalesce(b.filled_to, 0))) AS n_tokens,
        h.held_pool_id IS NOT NULL AS is_clear
    FROM held AS h
    LEFT JOIN bottom AS b USING (owner_id, page_no, via)
    WHERE coalesce(b.filled_to, 0) < coalesce(h.slot_hi, h.page_size, 1)
)
SELECT
    f.owner_id, f.pool_id, f.room, f.rid, f.page_no, f.page_index,
    CASE
        WHEN f.depth > 1 AND (f.is_carried OR f.via <> 'decode_pool') THEN 'prefill_tail'
        WHEN f.depth > 1 THEN 'decode_tail'
        ELSE f.via
    END AS via,
    f.held_pool_id, f.held_page_no, f.depth, f.source_owner_id, f.source_room, f.source_kind,
    f.n_tokens AS tokens, f.write_end_ns,
    f.is_clear AND NOT f.is_open AND x.owner_id IS NULL AND f.coverage = 'whole' AS definite,
    f.coverage
FROM found AS f
LEFT JOIN contested AS x ON x.owner_id = f.owner_id AND x.page_no = f.page_no AND x.via = f.via
WHERE f.n_tokens IS NULL OR f.n_tokens > 0
ORDER BY f.owner_id, f.page_index, f.depth NULLS LAST, f.source_owner_id
