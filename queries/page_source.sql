-- question:  Whose data did each use attend on stale pages, on how many pages and tokens?
-- inputs:    page_stale, page_use, page_request
-- grain:     one row per (owner_id, source_owner_id)
-- columns:   owner_id         BIGINT   recipient
--            source_owner_id  BIGINT   use whose data it is
--            source_room      UBIGINT  its bootstrap room
--            source_rid       VARCHAR  its request id
--            is_stub          BOOLEAN  all of it came through the page of prefill's answer
--            pages            BIGINT   pages
--            tokens           BIGINT   attended tokens; NULL if not known
--            page_list        BIGINT[] the pages, sorted; of the pool that ``is_stub`` tells
--            definite         BOOLEAN  at least one of them holds this source's data for certain
--            share            DOUBLE   else the highest share of one page's candidate writers
-- assumes:   of several writers that may each have come last, none is likelier
-- misses:    data without a known writer: it has no row
WITH candidate AS (
    SELECT *,
        count(DISTINCT source_owner_id) OVER (PARTITION BY owner_id, page_no, via) AS n_writers
    FROM page_stale
    WHERE source_owner_id IS NOT NULL AND owner_id IN (SELECT owner_id FROM page_use WHERE is_stale)
)
SELECT
    c.owner_id, c.source_owner_id, any_value(r.room) AS source_room,
    any_value(r.rid) AS source_rid,
    bool_and(c.via IN ('prefill_stub', 'prefill_tail')) AS is_stub,
    count(DISTINCT c.page_no) AS pages,
    sum(c.tokens)::BIGINT AS tokens,
    list_sort(list(DISTINCT c.held_page_no)) AS page_list,
    bool_or(c.definite) AS definite,
    max(1.0 / c.n_writers)::DOUBLE AS share
FROM candidate AS c
JOIN page_request AS r ON r.owner_id = c.source_owner_id
GROUP BY c.owner_id, c.source_owner_id
ORDER BY c.owner_id, c.source_owner_id
