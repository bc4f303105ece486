-- question:  May sends into a decode pool be missing from the traces?
-- inputs:    page_stretch, page_request, page_suspect, page_write
-- grain:     one row
-- columns:   blind  BOOLEAN  some send is, or may be, in no trace, or in one that is not whole
-- assumes:   a transfer that was committed had a send
-- misses:    sends of an untraced worker for requests that were never committed
SELECT
    EXISTS (FROM page_stretch WHERE NOT is_whole)
    OR EXISTS (FROM page_write WHERE kind = 'send' AND placed = 'none')
    OR EXISTS (
        FROM page_suspect AS s
        JOIN page_request AS r USING (owner_id)
        WHERE r.t_commit IS NOT NULL AND r.room <> 0 AND s.coverage <> 'whole'
    ) AS blind
