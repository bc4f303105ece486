-- question:  Who owned which run of pages of a pool, from when to when?
-- inputs:    page_event, page_ownership, page_request
-- grain:     one row per (owner_id, event_no, evidence_id, start_page)
-- columns:   owner_id     BIGINT   the use that owned the pages
--            pool_id      BIGINT   pool
--            evidence_id  INTEGER  file of the allocation
--            event_no     BIGINT   number of the allocation in the file
--            extent_no    INTEGER  number of the extent in the allocation: pages in prompt order
--            start_page   BIGINT   first page
--            n_pages      BIGINT   pages
--            t_alloc      BIGINT   start of the ownership, host's epoch ns
--            t_free       BIGINT   end of the ownership [t_alloc, t_free); NULL: no end recorded
--            is_growth    BOOLEAN  pages taken while decoding
-- assumes:   ownership is exclusive and half-open; pages stay owned while a release is deferred
-- misses:    allocations that name no page ids; pages shared by a prefix cache
WITH allocated AS (
    SELECT
        s.owner_id, s.pool_id, p.evidence_id, p.event_no, p.extent_no, p.start_page, p.n_pages,
        s.t_ns AS t_alloc, s.is_growth
    FROM page_ownership AS s
    JOIN page_event AS p
        ON p.evidence_id = s.evidence_id AND p.stream = s.stream AND p.event_no = s.event_no
    WHERE s.ev = 'alloc' AND p.start_page IS NOT NULL
),
-- Most uses give all pages back at once; only the others are looked at page by page.
piecemeal AS (
    SELECT owner_id
    FROM page_request
    WHERE n_frees > 1 OR n_frees = 1 AND n_freed_pages <> n_pages
),
freed_page AS (
    SELECT
        s.owner_id, s.t_ns,
        CASE WHEN p.start_page IS NOT NULL
            THEN unnest(range(p.start_page, p.start_page + p.n_pages))
        END AS page_no
    FROM page_ownership AS s
    JOIN piecemeal USING (owner_id)
    JOIN page_event AS p
        ON p.evidence_id = s.evidence_id AND p.stream = s.stream AND p.event_no = s.event_no
    WHERE s.ev = 'free'
),
owned_page AS (
    SELECT a.* EXCLUDE (start_page, n_pages),
        unnest(range(a.start_page, a.start_page + a.n_pages)) AS page_no
    FROM allocated AS a
    JOIN piecemeal USING (owner_id)
)
SELECT
    a.owner_id, a.pool_id, a.evidence_id, a.event_no, a.extent_no, a.start_page, a.n_pages,
    a.t_alloc, r.t_free, a.is_growth
FROM allocated AS a
JOIN page_request AS r USING (owner_id)
ANTI JOIN piecemeal AS x ON x.owner_id = a.owner_id
UNION ALL
SELECT
    o.owner_id, o.pool_id, o.evidence_id, o.event_no, o.extent_no, o.page_no, 1,
    o.t_alloc, min(f.t_ns) AS t_free, o.is_growth
FROM owned_page AS o
LEFT JOIN freed_page AS f
    ON f.owner_id = o.owner_id AND f.t_ns >= o.t_alloc
    AND (f.page_no = o.page_no OR f.page_no IS NULL)
GROUP BY ALL
