-- expire_key: sets when an API key expires, unless it was revoked or changed meanwhile.
-- KEYS     1 keys   2 notes about keys   3 what this key opens, by its hash
-- ARGV     1 id of the key   2 its note   3 what it opens   4 its note before
-- RETURNS  1, or 0 when there is no such key or its note is another one
-- CALLER   store/redis/app_keys.rs, expire
local call, K, A = redis.call, KEYS, ARGV
if call('HEXISTS', K[1], A[1]) == 0 then return 0 end
if call('HGET', K[2], A[1]) ~= A[4] then return 0 end
call('HSET', K[2], A[1], A[2])
call('SET', K[3], A[3])
return 1
