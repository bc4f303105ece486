-- question:  Which streams speak of the same requests?
-- inputs:    evidence, time_stats, engine_event, request_log
-- grain:     one row per unordered pair of streams
-- columns:   left_evidence   INTEGER  file of the first stream
--            left_stream     VARCHAR  source inside it
--            right_evidence  INTEGER  file of the second stream
--            right_stream    VARCHAR  source inside it
--            shared          BIGINT   number of (rid, room) pairs that both name
-- assumes:   a (rid, room) pair belongs to one worker per role: retries mint new rooms
-- misses:    streams that print no rid together with a room
WITH named AS (
    SELECT evidence_id, stream, rid, room FROM time_stats
    UNION
    SELECT evidence_id, stream, rid, room FROM engine_event
    UNION
    SELECT evidence_id, stream, rid, room FROM request_log
),
request_of_stream AS (
    SELECT named.*
    FROM named
    JOIN evidence AS e USING (evidence_id)
    WHERE e."current" AND rid IS NOT NULL AND coalesce(room, 0) <> 0
)
SELECT
    a.evidence_id AS left_evidence,
    a.stream AS left_stream,
    b.evidence_id AS right_evidence,
    b.stream AS right_stream,
    count(*) AS shared
FROM request_of_stream AS a
JOIN request_of_stream AS b
    ON a.rid = b.rid AND a.room = b.room
    AND (a.evidence_id, a.stream) < (b.evidence_id, b.stream)
GROUP BY ALL
ORDER BY ALL
