-- revoke_key: revokes an API key, once: it opens nothing from then on, and its record is kept. The first write
--          is a removal, which a full Redis allows: a leaked key must be revocable then, too.
-- KEYS     1 keys   2 notes about keys   3 revoked keys   4 the app by the hash of this key, if the hash is known
-- ARGV     1 id of the key   2 its record
-- RETURNS  "REVOKED" | "BEFORE" | "UNKNOWN"
-- CALLER   store/redis/app_keys.rs, revoke
local call, K, A = redis.call, KEYS, ARGV
if call('HEXISTS', K[3], A[1]) == 1 then return 'BEFORE' end
if call('HDEL', K[1], A[1]) == 0 then return 'UNKNOWN' end
call('HDEL', K[2], A[1])
call('HSET', K[3], A[1], A[2])
if K[4] then call('DEL', K[4]) end
return 'REVOKED'
