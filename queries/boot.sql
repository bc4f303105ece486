-- question:  Where does each start of an engine process stand, and what did it say it is?
-- inputs:    evidence, config_entry
-- grain:     one row per (evidence_id, stream, byte_offset)
-- columns:   evidence_id  INTEGER  file
--            stream       VARCHAR  source inside the file
--            byte_offset  BIGINT   offset of the server_args= line
--            stamp_ns     BIGINT   its stamp, naive; NULL if it has none
--            mode         VARCHAR  'prefill', 'decode' or 'null' (not disaggregated)
--            port         VARCHAR  listening port as JSON text
--            dialect      VARCHAR  'dataclass' or 'dict'
--            n_keys       BIGINT   number of keys that were read
-- assumes:   one server_args= line per start
-- misses:    starts whose line was rotated away
SELECT
    c.evidence_id,
    c.stream,
    c.byte_offset,
    max(c.stamp_ns) AS stamp_ns,
    trim(max(c.value) FILTER (c.key = 'disaggregation_mode'), '"') AS mode,
    max(c.value) FILTER (c.key = 'port') AS port,
    max(c.dialect) AS dialect,
    count(DISTINCT c.key) AS n_keys
FROM config_entry AS c
JOIN evidence AS e USING (evidence_id)
WHERE e."current" AND c.source = 'server_args'
GROUP BY c.evidence_id, c.stream, c.byte_offset
ORDER BY c.evidence_id, c.stream, c.byte_offset
