-- question:  Which pools were traced, by which recorder runs?
-- inputs:    evidence, page_event, worker_stream, worker
-- grain:     one row per header of a page trace
-- columns:   evidence_id  INTEGER  file
--            event_no     BIGINT   number of the header in the file: its events follow it
--            worker_id    INTEGER  worker; NULL if the file belongs to none
--            role         VARCHAR  role of the recording rank
--            dp           SMALLINT DP rank
--            session      VARCHAR  transfer session of the rank
--            num_pages    BIGINT   pages of the pool
--            page_size    BIGINT   tokens per page
-- assumes:   one file per rank; a second header is a restart of the recorder
-- misses:    traces without a header, which cannot be taken as complete
SELECT
    p.evidence_id,
    p.event_no,
    any_value(s.worker_id) AS worker_id,
    any_value(p.role) AS role,
    any_value(p.dp_rank) AS dp,
    any_value(p.session) AS session,
    any_value(json_extract(p.attrs::JSON, '$.num_pages')::BIGINT) AS num_pages,
    any_value(json_extract(p.attrs::JSON, '$.page_size')::BIGINT) AS page_size
FROM page_event AS p
JOIN evidence AS e USING (evidence_id)
LEFT JOIN worker_stream AS s ON s.evidence_id = p.evidence_id AND s.stream = p.stream
WHERE e."current" AND p.ev = 'header'
GROUP BY p.evidence_id, p.event_no
ORDER BY p.evidence_id, p.event_no
