-- question:  On which pages of which use may each late send have landed, and when?
-- inputs:    page_late_write, page_use, page_request, page_event
-- grain:     one row per (evidence_id, event_no, owner_id): a late send and a recipient
-- columns:   evidence_id      INTEGER  file of the send
--            event_no         BIGINT   number of its event in the file
--            owner_id         BIGINT   recipient
--            source_owner_id  BIGINT   use on whose behalf was written; NULL: not in the trace
--            source_room      UBIGINT  its bootstrap room
--            source_rid       VARCHAR  its request id; NULL: not in the trace
--            t_start          BIGINT   start of the send, prefill's clock
--            t_end            BIGINT   its end; NULL: it may land at any time after t_start
--            page_list        BIGINT[] pages, sorted
--            definite         BOOLEAN  every landing time harms
--            harms            STRUCT(lo BIGINT, hi BIGINT)[]  times at which a landing harms
--            ref              VARCHAR  evidence 'file:offset' of the send
-- assumes:   what page_late_write assumes
-- misses:    what page_late_write misses
SELECT
    h.evidence_id, h.event_no, h.owner_id,
    any_value(h.source_owner_id) AS source_owner_id,
    any_value(h.source_room) AS source_room,
    any_value(r.rid) AS source_rid,
    any_value(h.t_start) AS t_start,
    any_value(h.t_end) AS t_end,
    list_sort(list(DISTINCT h.page_no)) AS page_list,
    bool_or(h.definite) AS definite,
    list_sort(list(DISTINCT {'lo': h.harm_lo_ns, 'hi': h.harm_hi_ns})) AS harms,
    any_value(h.evidence_id::VARCHAR || ':' || p.byte_offset::VARCHAR) AS ref
FROM page_late_write AS h
JOIN page_use AS u USING (owner_id)
LEFT JOIN page_request AS r ON r.owner_id = h.source_owner_id
LEFT JOIN (
    SELECT evidence_id, event_no, min(byte_offset) AS byte_offset
    FROM page_event
    GROUP BY evidence_id, event_no
) AS p ON p.evidence_id = h.evidence_id AND p.event_no = h.event_no
WHERE h.possible
GROUP BY h.evidence_id, h.event_no, h.owner_id
ORDER BY h.owner_id, h.evidence_id, h.event_no
