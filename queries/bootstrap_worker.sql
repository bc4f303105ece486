-- question:  Which prefill worker answers at a bootstrap address?
-- inputs:    decode_use, handoff
-- grain:     one row per bootstrap address
-- columns:   bootstrap  VARCHAR  host:port in the request
--            worker_id  INTEGER  prefill worker that served it; NULL if several did
--            n          BIGINT   hand-offs that say so
-- assumes:   an address belongs to one worker for the length of the case
-- misses:    addresses that no joined hand-off names
SELECT
    d.bootstrap,
    CASE WHEN count(DISTINCT h.prefill_worker_id) = 1 THEN any_value(h.prefill_worker_id) END
        AS worker_id,
    count(*) AS n
FROM decode_use AS d
JOIN handoff AS h USING (use_id)
WHERE d.bootstrap IS NOT NULL AND NOT h.ambiguous
GROUP BY d.bootstrap
ORDER BY d.bootstrap
