-- question:  How far can the clocks of two hosts with page traces be apart?
-- inputs:    page_request, page_write
-- grain:     one row
-- columns:   slack_ns  BIGINT  bound on the offset in ns; 0 if all times are of one clock
-- assumes:   cause and effect: a send begins after its pages were allocated, and ends before the
--            commit of the same use; the offset drifts by less than these bounds leave open
-- misses:    pairs of hosts with sends and no commit: ten minutes count there
WITH pair AS (
    SELECT w.clock, r.host, max(r.t_alloc - w.t_start) AS low, min(r.t_commit - w.t_end) AS high
    FROM page_write AS w
    JOIN page_request AS r USING (owner_id)
    WHERE w.kind = 'send' AND w.n_candidates = 1 AND w.clock IS DISTINCT FROM r.host
        -- Without the header or the prompt's allocation, the first event kept is a later one.
        AND r.host IS NOT NULL AND r.n_prompt_pages > 0
    GROUP BY w.clock, r.host
)
SELECT coalesce(max(greatest(
    abs(coalesce(low, -600000000000)), abs(coalesce(high, 600000000000)))), 0)::BIGINT AS slack_ns
FROM pair
