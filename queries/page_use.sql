-- question:  What do the traces say of each use that attended pages: stale, late, or neither?
-- inputs:    page_request, page_suspect, page_stale
-- grain:     one row per owner_id: uses of decode pools whose transfer was committed
-- columns:   owner_id    BIGINT    the use
--            room        UBIGINT   bootstrap room
--            rid         VARCHAR   request id, '' if no event names one
--            page_size   BIGINT    tokens per page
--            t_alloc     BIGINT    start of its ownership, host's epoch ns
--            t_free      BIGINT    end of its ownership; NULL: no end recorded
--            is_stale    BOOLEAN   it attended pages without an own write; NULL: not known
--            stale_pages BIGINT    such pages
--            coverage    VARCHAR   see page_suspect
--            refs        VARCHAR[] evidence 'file:offset'
-- assumes:   what page_suspect and page_stale assume
-- misses:    uses that were never committed: they attended nothing
SELECT
    r.owner_id, r.room, r.rid, r.page_size, r.t_alloc, r.t_free,
    CASE
        WHEN s.owner_id IS NULL THEN false
        WHEN s.stale AND p.owner_id IS NULL AND s.coverage = 'whole' THEN false
        WHEN s.stale AND s.coverage <> 'whole' THEN NULL
        ELSE s.stale
    END AS is_stale,
    coalesce(p.n_pages, 0) AS stale_pages,
    coalesce(s.coverage, 'whole') AS coverage,
    list_transform(r.refs, lambda ref: split_part(ref, '|', 2)) AS refs
FROM page_request AS r
LEFT JOIN page_suspect AS s USING (owner_id)
LEFT JOIN (
    SELECT owner_id, count(DISTINCT page_no) AS n_pages FROM page_stale GROUP BY owner_id
) AS p USING (owner_id)
WHERE r.role <> 'prefill' AND r.t_commit IS NOT NULL
ORDER BY r.owner_id
