-- question:  What goes into responses.jsonl for each response?
-- inputs:    response, verdict, response_account, worker, worker_clock, worker_setting
-- grain:     one row per response_id
-- columns:   ...                           as in response.sql
--            tier               VARCHAR    verdict as recipient
--            probability        DOUBLE     at least one foreign token attended
--            low                DOUBLE     lower bound
--            high               DOUBLE     upper bound
--            level              VARCHAR    evidence level
--            mechanisms         VARCHAR    JSON list of the weighed mechanisms
--            reasons            VARCHAR    JSON list of reasons
--            account            VARCHAR    account
--            decode_worker      VARCHAR    name of the decode worker
--            prefill_worker     VARCHAR    name of the prefill worker
--            served_model       VARCHAR    model of the request, else of the worker
--            dp_rank            INTEGER    DP rank; 0 where the worker has one
--            decode_zone_known  BOOLEAN    the decode worker's zone is known
--            prefill_zone_known BOOLEAN    the prefill worker's zone is known
--            retry_of           UBIGINT    room of the earlier try of the same request
-- assumes:   a router's retry keeps the request id and mints a new room
-- misses:    retries of requests without an id
SELECT r.*, v.tier, v.probability, v.low, v.high, v.level, v.mechanisms, v.reasons,
    a.account,
    dw.worker AS decode_worker, pw.worker AS prefill_worker,
    coalesce(r.model, ds.model, ps.model) AS served_model,
    coalesce(r.dp, CASE WHEN ds.dp_size = 1 THEN 0 END) AS dp_rank,
    dc.known AS decode_zone_known, pc.known AS prefill_zone_known,
    CASE WHEN r.request_id IS NOT NULL THEN lag(r.room) OVER (
        PARTITION BY r.request_id ORDER BY r.first_ns, r.response_id) END AS retry_of
FROM response AS r
JOIN verdict AS v USING (response_id)
LEFT JOIN response_account AS a USING (response_id)
LEFT JOIN worker AS dw ON dw.worker_id = r.decode_worker_id
LEFT JOIN worker AS pw ON pw.worker_id = r.prefill_worker_id
LEFT JOIN worker_setting AS ds ON ds.worker_id = r.decode_worker_id
LEFT JOIN worker_setting AS ps ON ps.worker_id = r.prefill_worker_id
LEFT JOIN worker_clock AS dc ON dc.worker_id = r.decode_worker_id
LEFT JOIN worker_clock AS pc ON pc.worker_id = r.prefill_worker_id
ORDER BY r.room, r.attempt, r.response_id
