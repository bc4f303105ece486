-- question:  May the traces miss sends into a decode pool, or have lost events of what they cover?
-- inputs:    page_stretch, page_request, page_suspect, page_write
-- grain:     one row
-- columns:   blind  BOOLEAN  some send is, or may be, in no trace, or in one that is not whole
--            lossy  BOOLEAN  a trace has lines that could not be read, no header, or events of a
--                            use whose allocation it lacks: what it does not say proves nothing
-- assumes:   a transfer that was committed had a send
-- misses:    sends of an untraced worker for requests that were never committed
WITH known AS (
    SELECT
        EXISTS (FROM page_stretch WHERE NOT is_whole)
        OR EXISTS (FROM page_request WHERE t_alloc IS NULL) AS lossy
)
SELECT
    lossy
    OR EXISTS (FROM page_write WHERE kind = 'send' AND placed = 'none')
    OR EXISTS (
        FROM page_suspect AS s
        JOIN page_request AS r USING (owner_id)
        WHERE r.t_commit IS NOT NULL AND r.room <> 0 AND s.coverage <> 'whole'
    ) AS blind,
    lossy
FROM known
