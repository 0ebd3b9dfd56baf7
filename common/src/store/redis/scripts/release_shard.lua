-- release_shard: gives a lease up that is one's own.
-- KEYS     1 owner
-- ARGV     1 scheduler id
-- RETURNS  "RELEASED" | "LOST"
-- CALLER   store/redis/shards.rs, release
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'LOST' end
redis.call('DEL', KEYS[1])
return 'RELEASED'
