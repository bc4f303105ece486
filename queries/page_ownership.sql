-- question:  Which use of which request does each ownership event of a pool belong to?
-- inputs:    page_event, page_stretch
-- grain:     one row per (evidence_id, stream, event_no)
-- columns:   evidence_id  INTEGER  file
--            stream       VARCHAR  source inside the file
--            event_no     BIGINT   number of the event in the file
--            byte_offset  BIGINT   offset of its line
--            pool_id      BIGINT   pool
--            owner_id     BIGINT   the use: (pool, room, rid, use_no)
--            room         UBIGINT  bootstrap room; NULL if the event names none
--            rid          VARCHAR  request id, '' if no event of the room names one
--            use_no       BIGINT   use of the same room and rid in this pool, from 0
--            t_ns         BIGINT   time, the recording host's epoch ns
--            ev           VARCHAR  alloc, free, commit, finish, abort or hold
--            why          VARCHAR  its reason
--            tokens       BIGINT   tokens it names
--            n_pages      HUGEINT  pages it names; NULL if it does not say
--            has_pages    BOOLEAN  it names page ids, not only their number
--            is_growth    BOOLEAN  an allocation after the prompt's
-- assumes:   a use ends with the free after which it holds no page, or with a free that names none
-- misses:    events of other TP ranks than the lowest; two uses of one room and rid at once
WITH event AS (
    SELECT
        p.evidence_id, p.stream, p.event_no, min(p.byte_offset) AS byte_offset,
        any_value(s.pool_id) AS pool_id, any_value(p.room) AS room, any_value(p.rid) AS rid,
        any_value(p.t_ns) AS t_ns, any_value(p.ev) AS ev, any_value(p.why) AS why,
        any_value(p.tokens) AS tokens, sum(p.n_pages) AS n_pages,
        bool_or(p.start_page IS NOT NULL) AS has_pages
    FROM page_event AS p
    JOIN page_stretch AS s
        ON s.evidence_id = p.evidence_id AND s.stream = p.stream
        AND p.event_no >= s.first_event AND p.event_no < coalesce(s.end_event, p.event_no + 1)
    WHERE s.is_primary AND p.ev IN ('alloc', 'free', 'commit', 'finish', 'abort', 'hold')
    GROUP BY p.evidence_id, p.stream, p.event_no
),
rid_of_room AS (
    SELECT pool_id, room, any_value(rid) AS rid
    FROM event
    WHERE rid IS NOT NULL
    GROUP BY pool_id, room
    HAVING count(DISTINCT rid) = 1
),
named AS (
    SELECT * FROM event WHERE rid IS NOT NULL
    UNION ALL BY NAME
    SELECT e.* REPLACE (coalesce(k.rid, '') AS rid)
    FROM event AS e
    LEFT JOIN rid_of_room AS k ON k.pool_id = e.pool_id AND k.room = e.room
    WHERE e.rid IS NULL
),
balanced AS (
    SELECT *,
        ev = 'free' AND (n_pages IS NULL OR bool_or(ev = 'free' AND n_pages IS NULL) OVER whole_use
            OR sum(CASE ev WHEN 'alloc' THEN n_pages WHEN 'free' THEN -n_pages END)
                OVER so_far <= 0) AS is_last,
        ev = 'alloc' AND (why = 'growth' OR why IS NULL AND count_if(ev = 'commit') OVER so_far > 0)
            IS TRUE AS is_growth
    FROM named
    WINDOW
        whole_use AS (PARTITION BY pool_id, room, rid),
        so_far AS (
            PARTITION BY pool_id, room, rid ORDER BY t_ns, evidence_id, event_no
            ROWS UNBOUNDED PRECEDING
        )
),
counted AS (
    SELECT *,
        coalesce(count_if(is_last) OVER (
            PARTITION BY pool_id, room, rid ORDER BY t_ns, evidence_id, event_no
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::BIGINT AS use_no
    FROM balanced
)
SELECT
    evidence_id, stream, event_no, byte_offset, pool_id,
    min(evidence_id * 1099511627776 + event_no) OVER (PARTITION BY pool_id, room, rid, use_no)
        AS owner_id,
    room, rid, use_no, t_ns, ev, why, tokens, n_pages, has_pages, is_growth
FROM counted
