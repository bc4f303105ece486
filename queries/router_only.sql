-- question:  How many request ids does only the router know?
-- inputs:    router_request, response
-- grain:     one row
-- columns:   n     BIGINT     request ids that no response carries
--            refs  VARCHAR[]  evidence of the first five, 'file:offset'
-- assumes:   engines log the x-request-id header where the fleet was set up to (otherwise no id
--            joins, and nothing is counted)
-- misses:    fleets that log no request id on the engines
SELECT
    count(*) AS n,
    list(regexp_extract(q.refs[1], '[|](.*)$', 1) ORDER BY q.request_id)[1:5] AS refs
FROM router_request AS q
WHERE EXISTS (SELECT 1 FROM response WHERE request_id IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM response AS r WHERE r.request_id = q.request_id)
