-- question:  What goes into exposures.jsonl for each pair of recipient and source?
-- inputs:    exposure, response, response_account, worker, worker_clock, worker_setting
-- grain:     one row per (recipient, source, mechanism); source NULL is the remainder
-- columns:   recipient_room     UBIGINT  room of the recipient
--            recipient_attempt  BIGINT   its attempt
--            recipient_account  VARCHAR  its account
--            source_room        UBIGINT  room of the source; NULL for the remainder
--            source_attempt     BIGINT   its attempt
--            source_account     VARCHAR  its account
--            worker             VARCHAR  decode worker
--            dp_rank            INTEGER  DP rank; 0 where the worker has one
--            zone_known         BOOLEAN  the worker's zone is known
--            first_ns           BIGINT   earliest time at which foreign data may have been read
--            last_ns            BIGINT   latest time
--            ...                         as in the table exposure
-- assumes:   the recipient reads from its allocation to its end
-- misses:    sources that no log names
SELECT x.*, r.room AS recipient_room, r.attempt AS recipient_attempt, ra.account AS recipient_account,
    s.room AS source_room, s.attempt AS source_attempt, sa.account AS source_account,
    w.worker, coalesce(r.dp, CASE WHEN g.dp_size = 1 THEN 0 END) AS dp_rank, c.known AS zone_known,
    coalesce(r.alloc_lo, r.received_lo, r.first_ns) AS first_ns,
    coalesce(r.ended_hi, r.received_hi) AS last_ns
FROM exposure AS x
JOIN response AS r USING (response_id)
LEFT JOIN response_account AS ra USING (response_id)
LEFT JOIN response AS s ON s.use_id = x.source_use_id
LEFT JOIN response_account AS sa ON sa.response_id = s.response_id
LEFT JOIN worker AS w ON w.worker_id = r.decode_worker_id
LEFT JOIN worker_setting AS g ON g.worker_id = r.decode_worker_id
LEFT JOIN worker_clock AS c ON c.worker_id = r.decode_worker_id
ORDER BY r.room, r.attempt, x.mechanism, x.source_use_id IS NULL, x.probability DESC,
    s.room, s.attempt
