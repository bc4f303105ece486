-- question:  Who wrote which run of pages of a pool, from when to when?
-- inputs:    page_event, page_stretch, page_ownership, page_request, page_extent
-- grain:     one row per (kind, evidence_id, event_no, start_page)
-- columns:   kind         VARCHAR  'send': transfer into a decode pool; 'growth': the decode worker's
--                                  own tokens; 'prefill': the prefill worker's own prompt
--            evidence_id  INTEGER  file of the event that lists the pages
--            event_no     BIGINT   its number in the file
--            extent_no    INTEGER  number of the extent in the event
--            pool_id      BIGINT   pool that is written; NULL: the trace does not tell
--            owner_id     BIGINT   use on whose behalf; NULL: it is in no trace of that pool
--            room         UBIGINT  bootstrap room
--            start_page   BIGINT   first page
--            n_pages      BIGINT   pages
--            tokens       BIGINT   tokens of the whole chunk or allocation; NULL if not recorded
--            t_start      BIGINT   start, epoch ns of ``clock``; NULL: not recorded
--            t_end        BIGINT   end; NULL: failed, unfinished or not recorded, it may land later
--            ok           BOOLEAN  the sender reported success; NULL: not recorded
--            chunk        INTEGER  chunk of the prompt
--            clock        VARCHAR  host whose clock the times are of
--            src_pool_id  BIGINT   prefill pool that sends; NULL for local writes
--            src_tp       INTEGER  its TP rank
--            src_rid      VARCHAR  request id there
--            dst_session  VARCHAR  session that the sender named
--            placed       VARCHAR  'room': by session and room; 'pool': the session has one pool;
--                                  'none': no pool found; 'local'
--            n_candidates BIGINT   uses of the room that fit; more than 1 is ambiguous
-- assumes:   a room belongs to the latest use that began before the send; both clocks agree to
--            less than the time between two uses of one room
-- misses:    sends of prefill ranks without a trace; decode tokens in the prompt's last page
WITH send_event AS (
    SELECT
        p.evidence_id, p.stream, p.event_no, s.pool_id AS src_pool_id, s.host AS clock,
        s.tp_rank AS src_tp, p.room, coalesce(p.rid, '') AS src_rid, p.chunk, p.dst_session,
        p.ev, p.t_ns, p.ok, p.start_page AS first_page,
        row_number() OVER (
            PARTITION BY s.pool_id, s.tp_rank, p.room, p.rid, p.chunk, p.start_page,
                p.dst_session, p.ev
            ORDER BY p.t_ns, p.evidence_id, p.event_no
        ) AS nth
    FROM page_event AS p
    JOIN page_stretch AS s
        ON s.evidence_id = p.evidence_id AND s.stream = p.stream
        AND p.event_no >= s.first_event AND p.event_no < coalesce(s.end_event, p.event_no + 1)
    WHERE p.ev IN ('send_begin', 'send_end') AND p.extent_no = 0
),
-- A begin and the end of the same pages, the nth with the nth. Chunk numbers repeat: recorders
-- count them per step, so the first page belongs to the key.
send AS (
    SELECT
        arg_min((evidence_id, stream, event_no), ev) AS pages_of,
        src_pool_id, clock, src_tp, room, src_rid, chunk, dst_session,
        max(t_ns) FILTER (ev = 'send_begin') AS began,
        max(t_ns) FILTER (ev = 'send_end') AS ended,
        bool_and(ok) FILTER (ev = 'send_end') AS ok
    FROM send_event
    GROUP BY src_pool_id, clock, src_tp, room, src_rid, chunk, first_page, dst_session, nth
),
placed_room AS (
    SELECT s.pages_of, r.owner_id, r.pool_id,
        count(*) OVER (PARTITION BY s.pages_of) AS n_candidates
    FROM send AS s
    JOIN page_request AS r
        ON r.room = s.room AND r.role <> 'prefill' AND r.pool_id <> s.src_pool_id
        AND (s.dst_session IS NULL OR r.session IS NULL OR r.session = s.dst_session)
    QUALIFY row_number() OVER (
        PARTITION BY s.pages_of
        ORDER BY
            coalesce(r.t_alloc <= coalesce(s.began, s.ended), false) DESC,
            CASE WHEN r.t_alloc <= coalesce(s.began, s.ended) THEN -r.t_alloc ELSE r.t_alloc END,
            r.owner_id
    ) = 1
),
lone_pool AS (
    SELECT session, any_value(pool_id) AS pool_id
    FROM page_stretch
    WHERE role <> 'prefill' AND session IS NOT NULL
    GROUP BY session
    HAVING count(DISTINCT pool_id) = 1
),
placed AS (
    SELECT
        s.*,
        coalesce(r.pool_id, o.pool_id) AS pool_id,
        r.owner_id,
        CASE
            WHEN r.owner_id IS NOT NULL THEN 'room' WHEN o.pool_id IS NOT NULL THEN 'pool'
            ELSE 'none'
        END AS placed,
        coalesce(r.n_candidates, 0) AS n_candidates
    FROM send AS s
    LEFT JOIN placed_room AS r USING (pages_of)
    LEFT JOIN lone_pool AS o ON o.session = s.dst_session
),
-- A prefill chunk was computed for certain if it was sent.
sent_chunk AS (
    SELECT src_pool_id AS pool_id, room, src_rid AS rid, max(coalesce(chunk, 0)) AS last_chunk
    FROM send
    GROUP BY ALL
),
prefill_alloc AS (
    SELECT s.*,
        row_number() OVER (PARTITION BY s.owner_id ORDER BY s.t_ns, s.event_no) - 1 AS chunk
    FROM page_ownership AS s
    WHERE s.ev = 'alloc'
)
SELECT
    'send' AS kind, p.evidence_id, p.event_no, p.extent_no, s.pool_id, s.owner_id, s.room,
    p.start_page, p.n_pages, p.tokens,
    CASE WHEN s.began <= coalesce(s.ended, s.began) THEN s.began END AS t_start,
    CASE WHEN s.ok THEN s.ended END AS t_end,
    s.ok, s.chunk, s.clock, s.src_pool_id, s.src_tp, s.src_rid,
    s.dst_session, s.placed, s.n_candidates
FROM placed AS s
JOIN page_event AS p
    ON p.evidence_id = s.pages_of[1] AND p.stream = s.pages_of[2] AND p.event_no = s.pages_of[3]
WHERE p.start_page IS NOT NULL
UNION ALL
SELECT
    'growth', x.evidence_id, x.event_no, x.extent_no, x.pool_id, x.owner_id, r.room,
    x.start_page, x.n_pages, NULL, x.t_alloc, x.t_free, true, NULL, r.host, NULL, NULL, NULL,
    NULL, 'local', 1
FROM page_extent AS x
JOIN page_request AS r USING (owner_id)
WHERE x.is_growth AND r.role <> 'prefill'
UNION ALL
SELECT
    'prefill', x.evidence_id, x.event_no, x.extent_no, x.pool_id, x.owner_id, r.room,
    x.start_page, x.n_pages, a.tokens, x.t_alloc, x.t_free,
    CASE WHEN a.chunk <= c.last_chunk THEN true END, a.chunk::INTEGER, r.host, NULL, NULL, NULL,
    NULL, 'local', 1
FROM page_extent AS x
JOIN page_request AS r USING (owner_id)
JOIN prefill_alloc AS a
    ON a.evidence_id = x.evidence_id AND a.event_no = x.event_no AND a.owner_id = x.owner_id
LEFT JOIN sent_chunk AS c
    ON c.pool_id = x.pool_id AND c.room = r.room AND c.rid = r.rid
WHERE r.role = 'prefill'
