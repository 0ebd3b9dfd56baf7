-- trim_inbox: deletes inbox entries below the stored cursor, only for the owner of this epoch.
-- KEYS     1 a key that never exists   2 fence   3 inbox
-- ARGV     1 epoch
-- RETURNS  "TRIMMED" | "STALE"
-- CALLER   store/redis/shards.rs, trim_inbox
redis.call('UNLINK', KEYS[1])
local fence = redis.call('HMGET', KEYS[2], 'epoch', 'cursor')
if fence[1] ~= ARGV[1] then return 'STALE' end
if fence[2] then redis.call('XTRIM', KEYS[3], 'MINID', fence[2]) end
return 'TRIMMED'
