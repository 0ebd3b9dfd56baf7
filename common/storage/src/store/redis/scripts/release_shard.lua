-- release_shard: releases a lease that this scheduler holds. A regular release does not count as a failure.
-- KEYS     1 owner   2 fence
-- ARGV     1 scheduler id
-- RETURNS  "RELEASED" | "LOST"
-- CALLER   store/redis/shards.rs, release
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'LOST' end
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], 'claimed')
return 'RELEASED'
