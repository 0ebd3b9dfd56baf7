-- raise_shards: raises the number of shards for new runs. Refuses while a process may live that would not notice: the
-- version of the namespace says so.
-- KEYS     1 meta
-- ARGV     1 the new number   2 the first version whose processes notice
-- RETURNS  {"RAISED" | "SAME" | "LESS" | "OLDER", the number before; of "OLDER" the version of the namespace}
-- CALLER   store/redis/fleet.rs, raise_shards
local call, A = redis.call, ARGV
local known = call('HMGET', KEYS[1], 'shards', 'v')
local shards, version = tonumber(known[1] or 0), tonumber(known[2] or 1)
if tonumber(A[1]) < shards then return { 'LESS', tostring(shards) } end
if tonumber(A[1]) == shards then return { 'SAME', tostring(shards) } end
if version < tonumber(A[2]) then return { 'OLDER', tostring(version) } end
call('HSET', KEYS[1], 'shards', A[1])
return { 'RAISED', tostring(shards) }
