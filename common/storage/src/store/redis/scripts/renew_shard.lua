-- renew_shard: renews a lease that this scheduler still holds.
-- KEYS     1 a key that never exists   2 owner
-- ARGV     1 scheduler id   2 lease, ms
-- RETURNS  "KEPT" | "LOST"
-- CALLER   store/redis/shards.rs, renew
redis.call('UNLINK', KEYS[1])
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 'LOST' end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 'KEPT'
