-- question:  Which writes landed, or may have, on a page that another use owned, and did it harm?
-- inputs:    page_suspect, page_request, page_extent, page_write
-- params:    $slack_ns  bound on the offset between the clocks of two hosts
-- grain:     one row per (evidence_id, event_no, page_no, owner_id): a send, a page, a recipient
-- columns:   evidence_id      INTEGER  file of the send
--            event_no         BIGINT   number of its event in the file
--            pool_id          BIGINT   decode pool
--            page_no          BIGINT   page
--            owner_id         BIGINT   recipient: the use that owned the page
--            room             UBIGINT  its bootstrap room
--            rid              VARCHAR  its request id
--            source_owner_id  BIGINT   use on whose behalf was written; NULL: not in the trace
--            source_room      UBIGINT  its bootstrap room
--            t_start          BIGINT   start of the send, prefill's clock
--            t_end            BIGINT   its end; NULL: it may land at any time after t_start
--            t_alloc          BIGINT   start of the recipient's ownership, decode's clock
--            harm_lo_ns       BIGINT   from here on a landing stays: the recipient's own write of
--                                      the page, or its allocation if it never wrote the page
--            harm_hi_ns       BIGINT   its last read of the page; NULL: it still reads
--            class            VARCHAR  by the send's end: 'repaired' (its own write came later),
--                                      'before_attend', 'during_decode', 'after_last_read',
--                                      'unread' (it attended nothing), 'open_end' (no end known)
--            possible         BOOLEAN  some landing time within the send and the slack harms
--            definite         BOOLEAN  every landing time within the send and the slack harms
--            is_growth        BOOLEAN  page of the recipient's output, not of its prompt
-- assumes:   a page lands at some time from the send's start to its end; ownership is exclusive
-- misses:    sends whose pool no trace tells; writes of the recipient's decode into the page later on
WITH late_send AS (
    SELECT w.evidence_id, w.event_no, w.pool_id, w.owner_id, w.room, w.start_page, w.n_pages,
        w.t_start, w.t_end, r.t_free,
        greatest(coalesce(w.t_start, w.t_end) - $slack_ns, r.t_free) AS lo,
        coalesce(w.t_end + $slack_ns, 9223372036854775807) AS hi
    FROM page_write AS w
    JOIN page_suspect AS s USING (owner_id)
    JOIN page_request AS r USING (owner_id)
    WHERE w.kind = 'send' AND s.late IS NOT NULL
        AND (w.t_end IS NULL OR w.t_end + $slack_ns >= r.t_free)
        -- A send that succeeded came before the commit of its use, whatever the clocks say.
        AND NOT (w.ok IS TRUE AND r.t_commit IS NOT NULL AND w.n_candidates = 1)
    UNION ALL
    -- A send for a use that the pool's trace does not hold is never on time for certain.
    SELECT evidence_id, event_no, pool_id, NULL, room, start_page, n_pages, t_start, t_end, NULL,
        coalesce(t_start, t_end, 0) - $slack_ns, coalesce(t_end + $slack_ns, 9223372036854775807)
    FROM page_write
    WHERE kind = 'send' AND owner_id IS NULL AND pool_id IS NOT NULL
),
-- MATERIALIZED: the small side has to be known before the join is planned.
late_block AS MATERIALIZED (
    SELECT *,
        unnest(range(start_page >> 4, ((start_page + n_pages - 1) >> 4) + 1)) AS block_no
    FROM late_send
),
owned_block AS (
    SELECT *,
        unnest(range(start_page >> 4, ((start_page + n_pages - 1) >> 4) + 1)) AS block_no
    FROM page_extent
),
-- Clipped to the block, so that nothing counts twice.
hit AS (
    SELECT
        l.evidence_id, l.event_no, l.pool_id, l.owner_id AS source_owner_id,
        l.room AS source_room, l.t_start, l.t_end, l.lo, l.hi, a.owner_id, a.t_alloc, a.t_free,
        a.is_growth,
        unnest(range(
            greatest(l.start_page, a.start_page, l.block_no << 4),
            least(l.start_page + l.n_pages, a.start_page + a.n_pages, (l.block_no + 1) << 4)
        )) AS page_no
    FROM late_block AS l
    JOIN owned_block AS a
        ON a.pool_id = l.pool_id AND a.block_no = l.block_no
        AND a.owner_id IS DISTINCT FROM l.owner_id
        AND a.start_page < l.start_page + l.n_pages AND l.start_page < a.start_page + a.n_pages
        AND a.t_alloc <= l.hi AND coalesce(a.t_free, 9223372036854775807) > l.lo
),
own_write AS (
    SELECT h.owner_id, h.page_no, min(w.t_start) AS t_start, max(w.t_end) AS t_end
    FROM (SELECT DISTINCT owner_id, page_no FROM hit WHERE NOT is_growth) AS h
    JOIN page_write AS w
        ON w.owner_id = h.owner_id AND w.kind = 'send' AND w.ok
        AND h.page_no >= w.start_page AND h.page_no < w.start_page + w.n_pages
    GROUP BY h.owner_id, h.page_no
),
placed AS (
    SELECT
        h.*, r.room, r.rid, r.attended, r.t_commit,
        -- The own write lies between these two, whatever the clocks' offset within the slack.
        CASE
            WHEN h.is_growth THEN h.t_alloc
            WHEN w.owner_id IS NULL THEN h.t_alloc
            ELSE greatest(coalesce(w.t_start, w.t_end) - $slack_ns, h.t_alloc)
        END AS own_lo,
        CASE
            WHEN h.is_growth THEN h.t_alloc
            WHEN w.owner_id IS NULL THEN h.t_alloc
            ELSE least(w.t_end + $slack_ns, coalesce(r.t_commit, w.t_end + $slack_ns))
        END AS own_hi,
        -- The own write by its stamp, for the class.
        CASE
            WHEN h.is_growth OR w.owner_id IS NULL THEN h.t_alloc
            ELSE least(w.t_end, coalesce(r.t_commit, w.t_end))
        END AS own_ns,
        coalesce(r.t_finish, h.t_free) AS last_read
    FROM hit AS h
    JOIN page_request AS r USING (owner_id)
    LEFT JOIN own_write AS w ON w.owner_id = h.owner_id AND w.page_no = h.page_no
)
SELECT
    evidence_id, event_no, pool_id, page_no, owner_id, room, rid, source_owner_id, source_room,
    t_start, t_end, t_alloc, own_ns AS harm_lo_ns, last_read AS harm_hi_ns,
    CASE
        WHEN attended IS FALSE THEN 'unread'
        WHEN t_end IS NULL THEN 'open_end'
        WHEN t_end < own_ns THEN 'repaired'
        WHEN t_end < t_commit THEN 'before_attend'
        WHEN t_end < coalesce(last_read, 9223372036854775807) THEN 'during_decode'
        ELSE 'after_last_read'
    END AS class,
    attended IS NOT FALSE AND hi >= own_lo AND lo < coalesce(last_read, 9223372036854775807)
        AS possible,
    coalesce(
        attended AND source_owner_id IS NOT NULL AND t_end IS NOT NULL AND lo >= own_hi
            AND hi < coalesce(last_read, 9223372036854775807),
        false
    ) AS definite,
    is_growth
FROM placed
ORDER BY evidence_id, event_no, page_no, t_alloc, owner_id
