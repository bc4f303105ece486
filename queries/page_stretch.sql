-- question:  Whose pages does each stretch of a page trace describe, and can it be taken as whole?
-- inputs:    evidence, page_event, reject
-- grain:     one row per (evidence_id, stream, first_event): what stands under one header
-- columns:   evidence_id    INTEGER  file
--            stream         VARCHAR  source inside the file
--            first_event    BIGINT   number of the header, or of the first event without one
--            end_event      BIGINT   number of the next header; NULL if none follows
--            pool_id        BIGINT   pool; stretches of the same pool share it
--            host           VARCHAR  host of the header; NULL without header
--            role           VARCHAR  prefill or decode; 'unknown' if the header does not say
--            session        VARCHAR  transfer session; ranks of one worker may share it
--            dp_rank        SMALLINT DP rank
--            tp_rank        INTEGER  TP rank
--            boot           BIGINT   boot of this rank, from 0, by the header's start
--            page_size      BIGINT   tokens per page
--            num_pages      BIGINT   pages of the pool
--            engine_version VARCHAR  version the header states
--            start_ns       BIGINT   start that the header states, the host's epoch ns
--            is_primary     BOOLEAN  lowest TP rank: others repeat its ownership
--            has_header     BOOLEAN  false: the trace cannot be taken as complete
--            rejects        BIGINT   lines of the file that could not be read
--            is_whole       BOOLEAN  has a header, no rejects
-- assumes:   all attention-TP ranks of a DP rank hold the same page map (engine-telemetry.md, 10.7)
-- misses:    ranks that nobody traced; events that a recorder dropped without a word
WITH live AS (
    SELECT p.evidence_id, p.stream, p.event_no, p.ev, p.host, p.role, p.session, p.dp_rank,
        p.attrs
    FROM page_event AS p
    JOIN evidence AS e USING (evidence_id)
    WHERE e."current"
),
stretch AS (
    SELECT evidence_id, stream, event_no AS first_event, host, role, session, dp_rank,
        attrs::JSON AS header
    FROM live
    WHERE ev = 'header'
    UNION ALL
    SELECT evidence_id, stream, min(event_no), NULL, NULL, NULL, NULL, NULL
    FROM live
    GROUP BY evidence_id, stream
    HAVING arg_min(ev, event_no) <> 'header'
),
fault AS (
    SELECT evidence_id, count(*) AS rejects
    FROM reject
    GROUP BY evidence_id
),
described AS (
    SELECT
        evidence_id, stream, first_event, host, coalesce(role, 'unknown') AS role, session,
        dp_rank,
        TRY_CAST(json_extract_string(header, '$.tp_rank') AS INTEGER) AS tp_rank,
        TRY_CAST(json_extract_string(header, '$.page_size') AS BIGINT) AS page_size,
        TRY_CAST(json_extract_string(header, '$.num_pages') AS BIGINT) AS num_pages,
        json_extract_string(header, '$.engine_version') AS engine_version,
        TRY_CAST(json_extract_string(header, '$.start_ts_ns') AS BIGINT) AS start_ns,
        header IS NOT NULL AS has_header,
        lead(first_event) OVER (PARTITION BY evidence_id, stream ORDER BY first_event)
            AS end_event,
        -- A stretch without header is a pool of its own.
        CASE WHEN header IS NULL THEN evidence_id * 1099511627776 + first_event END AS lone
    FROM stretch
),
booted AS (
    SELECT *,
        -- A rotated trace repeats its header: the same start is the same boot.
        dense_rank() OVER (
            PARTITION BY host, role, session, dp_rank, tp_rank, lone ORDER BY start_ns
        ) - 1 AS boot
    FROM described
)
SELECT
    b.evidence_id, b.stream, b.first_event, b.end_event,
    dense_rank() OVER (
        ORDER BY b.host, b.role, b.session, b.dp_rank, b.boot, b.lone
    ) AS pool_id,
    b.host, b.role, b.session, b.dp_rank, b.tp_rank, b.boot, b.page_size, b.num_pages,
    b.engine_version, b.start_ns,
    coalesce(b.tp_rank, -1) = min(coalesce(b.tp_rank, -1)) OVER (
        PARTITION BY b.host, b.role, b.session, b.dp_rank, b.boot, b.lone
    ) AS is_primary,
    b.has_header,
    coalesce(f.rejects, 0) AS rejects,
    b.has_header AND coalesce(f.rejects, 0) = 0 AS is_whole
FROM booted AS b
LEFT JOIN fault AS f USING (evidence_id)
ORDER BY evidence_id, stream, first_event
