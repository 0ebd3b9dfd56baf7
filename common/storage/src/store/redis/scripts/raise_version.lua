-- raise_version: raises the version of the namespace once every live process knows the new one. An older process that
-- starts later reads the version first, and refuses to start.
-- KEYS     1 meta   2 live schedulers   3 live workers   4 live processes of both kinds that know the new version
-- ARGV     1 the new version
-- RETURNS  the version that is valid now
-- CALLER   store/redis/shards.rs, raise_version
local call = redis.call
local version = tonumber(call('HGET', KEYS[1], 'v') or 1)
if version >= tonumber(ARGV[1]) then
  return version
end
for list = 2, 3 do
  for _, id in ipairs(call('ZRANGE', KEYS[list], 0, -1)) do
    if not call('ZSCORE', KEYS[4], id) then
      return version
    end
  end
end
call('HSET', KEYS[1], 'v', ARGV[1])
return tonumber(ARGV[1])
