-- release_shard: gives a lease up that is one's own. What was taken and given up in good order counts as no failure.
-- KEYS     1 owner   2 fence
-- ARGV     1 scheduler id
-- RETURNS  "RELEASED" | "LOST"
-- CALLER   store/redis/shards.rs, release
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'LOST' end
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], 'claimed')
return 'RELEASED'
