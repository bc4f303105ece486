-- question:  Which files is the case built on?
-- inputs:    evidence
-- grain:     one row per evidence_id
-- columns:   evidence_id  INTEGER  number
--            name         VARCHAR  display name
--            sha256       VARCHAR  hash of the decompressed bytes
--            format       VARCHAR  recognised formats; NULL if none
--            lines        BIGINT   physical lines
--            records      BIGINT   rows made of them
--            rejects      BIGINT   lines that belong to a format and could not be parsed
--            status       VARCHAR  what became of the file
--            current      BOOLEAN  the file is the current version of its evidence
--            first_at     VARCHAR  first stamp as written
--            last_at      VARCHAR  last stamp as written
-- assumes:   nothing
-- misses:    files that were not given
SELECT
    evidence_id, name, sha256, format, lines, records, rejects, status, "current",
    strftime(make_timestamp_ns(first_stamp_ns), '%Y-%m-%dT%H:%M:%S') AS first_at,
    strftime(make_timestamp_ns(last_stamp_ns), '%Y-%m-%dT%H:%M:%S') AS last_at
FROM evidence
ORDER BY evidence_id
