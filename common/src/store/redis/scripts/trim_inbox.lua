-- trim_inbox: cuts the inbox below the stored cursor, for the owner of this epoch alone.
-- KEYS     1 a key that is never there   2 fence   3 inbox
-- ARGV     1 epoch
-- RETURNS  "TRIMMED" | "STALE"
-- CALLER   store/redis/shards.rs, trim_inbox
redis.call('UNLINK', KEYS[1])
local fence = redis.call('HMGET', KEYS[2], 'epoch', 'cursor')
if fence[1] ~= ARGV[1] then return 'STALE' end
if fence[2] then redis.call('XTRIM', KEYS[3], 'MINID', fence[2]) end
return 'TRIMMED'
