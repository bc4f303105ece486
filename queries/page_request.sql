-- question:  When did each request own pages of a pool, how many, and did it attend them?
-- inputs:    page_stretch, page_ownership
-- grain:     one row per (pool_id, room, rid, use_no)
-- columns:   owner_id        BIGINT   the use
--            pool_id         BIGINT   pool: host, dp_rank, boot (and session)
--            host            VARCHAR  host
--            role            VARCHAR  prefill, decode or unknown
--            session         VARCHAR  transfer session of the worker
--            dp_rank         SMALLINT DP rank
--            boot            BIGINT   boot of the rank
--            page_size       BIGINT   tokens per page
--            room            UBIGINT  bootstrap room
--            rid             VARCHAR  request id on this worker
--            use_no          BIGINT   use of the room, from 0
--            t_alloc         BIGINT   first allocation, host's epoch ns; NULL: it is not in the trace
--            t_commit        BIGINT   end of the transfer
--            t_hold          BIGINT   start of a deferred release
--            t_finish        BIGINT   last token
--            t_abort         BIGINT   abort
--            t_free          BIGINT   last free; NULL while it holds pages
--            why_free        VARCHAR  reason of the last free
--            n_frees         BIGINT   free events: several free page by page
--            n_pages         HUGEINT  pages allocated
--            n_prompt_pages  HUGEINT  pages for the prompt
--            n_freed_pages   HUGEINT  pages freed; NULL if a free does not say
--            prompt_tokens   HUGEINT  tokens the prompt's pages were allocated for
--            output_tokens   BIGINT   tokens generated; NULL if unknown
--            has_pages       BOOLEAN  page ids are known
--            attended        BOOLEAN  decode read the pages; NULL if the trace does not tell
--            refs            VARCHAR[] evidence 'source|file:offset'
-- assumes:   the first token comes from prefill: a request that returned one token attended nothing
-- misses:    uses whose every event was lost
SELECT
    s.owner_id,
    s.pool_id,
    any_value(p.host) AS host,
    any_value(p.role) AS role,
    any_value(p.session) AS session,
    any_value(p.dp_rank) AS dp_rank,
    any_value(p.boot) AS boot,
    any_value(p.page_size) AS page_size,
    s.room,
    s.rid,
    s.use_no,
    min(s.t_ns) FILTER (s.ev = 'alloc') AS t_alloc,
    min(s.t_ns) FILTER (s.ev = 'commit') AS t_commit,
    min(s.t_ns) FILTER (s.ev = 'hold') AS t_hold,
    max(s.t_ns) FILTER (s.ev = 'finish') AS t_finish,
    min(s.t_ns) FILTER (s.ev = 'abort') AS t_abort,
    CASE
        WHEN bool_or(s.ev = 'free' AND s.n_pages IS NULL)
            OR sum(CASE s.ev WHEN 'alloc' THEN s.n_pages WHEN 'free' THEN -s.n_pages END) <= 0
        THEN max(s.t_ns) FILTER (s.ev = 'free')
    END AS t_free,
    arg_max(s.why, (s.t_ns, s.event_no)) FILTER (s.ev = 'free') AS why_free,
    count_if(s.ev = 'free')::BIGINT AS n_frees,
    sum(s.n_pages) FILTER (s.ev = 'alloc') AS n_pages,
    sum(s.n_pages) FILTER (s.ev = 'alloc' AND NOT s.is_growth) AS n_prompt_pages,
    CASE
        WHEN NOT bool_or(s.ev = 'free' AND s.n_pages IS NULL)
        THEN sum(s.n_pages) FILTER (s.ev = 'free')
    END AS n_freed_pages,
    -- Prefill allocates chunk by chunk, decode the whole prompt at once.
    CASE any_value(p.role)
        WHEN 'prefill' THEN sum(s.tokens) FILTER (s.ev = 'alloc')
        ELSE max(s.tokens) FILTER (s.ev = 'alloc' AND NOT s.is_growth OR s.ev = 'commit')
    END::HUGEINT AS prompt_tokens,
    max(s.tokens) FILTER (s.ev = 'finish') AS output_tokens,
    bool_and(s.has_pages) FILTER (s.ev = 'alloc') AS has_pages,
    CASE
        WHEN any_value(p.role) = 'prefill' THEN false
        WHEN max(s.tokens) FILTER (s.ev = 'finish') > 1 OR bool_or(s.is_growth) THEN true
        WHEN max(s.tokens) FILTER (s.ev = 'finish') <= 1 THEN false
        WHEN NOT bool_or(s.ev IN ('commit', 'finish')) AND bool_or(s.ev = 'free')
            AND bool_or(s.ev = 'abort' OR s.why IN ('abort', 'transfer_failed',
                'deferred_drained', 'deferred_timeout'))
        THEN false
    END AS attended,
    list_sort(list_distinct(list(
        'page_' || s.ev || '|' || s.evidence_id::VARCHAR || ':' || s.byte_offset::VARCHAR
    ) FILTER (NOT s.is_growth))) AS refs
FROM page_ownership AS s
JOIN (
    SELECT pool_id, any_value(host) AS host, any_value(role) AS role,
        any_value(session) AS session, any_value(dp_rank) AS dp_rank, any_value(boot) AS boot,
        any_value(page_size) AS page_size
    FROM page_stretch
    WHERE is_primary
    GROUP BY pool_id
) AS p USING (pool_id)
GROUP BY s.owner_id, s.pool_id, s.room, s.rid, s.use_no
