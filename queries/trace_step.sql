-- question:  What happened to pages, in the order in which each recorder wrote it?
-- inputs:    evidence, page_event
-- grain:     one row per event that names pages or ends a use
-- columns:   evidence_id  INTEGER  file
--            event_no     BIGINT   number of the event in the file
--            t_ns         BIGINT   time by the recording host, epoch
--            ev           VARCHAR  alloc, free, advertise, send_begin, send_end, commit, ...
--            room         UBIGINT  bootstrap room; NULL for requests without a hand-off
--            rid          VARCHAR  request id on the recording worker
--            tokens       BIGINT   tokens
--            why          VARCHAR  cause
--            chunk        INTEGER  chunk of a send
--            session      VARCHAR  destination session of a send
--            ok           BOOLEAN  the send succeeded
--            extents      STRUCT(start BIGINT, n BIGINT)[] pages, in order
--            byte_offset  BIGINT   where the line stands
-- assumes:   a recorder writes events in order
-- misses:    events that the recorder dropped
SELECT
    p.evidence_id, p.event_no,
    any_value(p.t_ns) AS t_ns, any_value(p.ev) AS ev, any_value(p.room) AS room,
    any_value(p.rid) AS rid, any_value(p.tokens) AS tokens, any_value(p.why) AS why,
    any_value(p.chunk) AS chunk, any_value(p.dst_session) AS session, any_value(p.ok) AS ok,
    coalesce(list({'start': p.start_page, 'n': p.n_pages} ORDER BY p.extent_no)
        FILTER (p.start_page IS NOT NULL), []) AS extents,
    min(p.byte_offset) AS byte_offset
FROM page_event AS p
JOIN evidence AS e USING (evidence_id)
WHERE e."current" AND p.ev IN ('alloc', 'free', 'advertise', 'send_begin', 'send_end', 'commit')
GROUP BY p.evidence_id, p.event_no
ORDER BY p.evidence_id, p.event_no
