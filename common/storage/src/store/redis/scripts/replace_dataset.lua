-- replace_dataset: stores a changed dataset, if nothing has changed it since it was read.
-- KEYS     1 datasets
-- ARGV     1 dataset   2 its new revision   3 record, JSON
-- RETURNS  "REPLACED" | "MOVED" when it has another revision now, or was removed
-- CALLER   store/redis/knowledge.rs, replace_dataset
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
if not known or (cjson.decode(known)['revision'] or 0) + 1 ~= tonumber(A[2]) then return 'MOVED' end
call('HSET', K[1], A[1], A[3])
return 'REPLACED'
