-- question:  Which account does each response belong to?
-- inputs:    evidence, account_key, response
-- grain:     one row per response_id that has an account
-- columns:   response_id  BIGINT   response
--            account      VARCHAR  account; several that contradict give none
-- assumes:   key names follow accounts.csv: x_request_id and request_id are the same id
-- misses:    responses whose keys accounts.csv does not list
WITH owner AS (
    SELECT key_name, key_value, any_value(account) AS account
    FROM account_key AS k
    JOIN evidence AS e USING (evidence_id)
    WHERE e."current"
    GROUP BY key_name, key_value
    HAVING count(DISTINCT account) = 1
),
key_of_response AS (
    SELECT response_id, 'x_request_id' AS key_name, request_id AS key_value FROM response
    UNION ALL
    SELECT response_id, 'request_id', request_id FROM response
    UNION ALL
    SELECT response_id, 'rid', rid FROM response
    UNION ALL
    SELECT response_id, 'rid', p_rid FROM response
    UNION ALL
    SELECT response_id, 'room', room::VARCHAR FROM response
    UNION ALL
    SELECT response_id, name, json_extract_string(fields, '$."' || name || '"')
    FROM (
        SELECT response_id, fields, unnest(json_keys(fields)) AS name
        FROM (
            SELECT response_id, coalesce(keys, p_keys)::JSON AS fields
            FROM response
            WHERE coalesce(keys, p_keys) IS NOT NULL
        )
    )
    WHERE name IN (SELECT DISTINCT key_name FROM owner) AND NOT contains(name, '"')
)
SELECT k.response_id, any_value(o.account) AS account
FROM key_of_response AS k
JOIN owner AS o ON o.key_name = k.key_name AND o.key_value = k.key_value
WHERE k.key_value IS NOT NULL
GROUP BY k.response_id
HAVING count(DISTINCT o.account) = 1
