-- announce: adds an id to a list of live processes, by the server's time, and removes those that were silent too
-- long. Begins with a removal, which a full Redis allows: otherwise a full Redis could not be swept, because no
-- scheduler could claim a shard.
-- KEYS     1 list of processes   2 list of live processes that know the newest version of the namespace
-- ARGV     1 id   2 longest silence, ms   3 what to return: ids or count
-- RETURNS  the ids on the first list, or their number: a fleet of a thousand workers that each ask for all ids would cost
--          more than all else that it does when idle
-- CALLER   store/redis/shards.rs, announce
local call = redis.call
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local silent = string.format('(%.0f', now - tonumber(ARGV[2]))
if call('ZREMRANGEBYSCORE', KEYS[1], '-inf', silent) > 0 then
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', silent)
end
for _, list in ipairs(KEYS) do
  call('ZADD', list, string.format('%.0f', now), ARGV[1])
end
if ARGV[3] == 'count' then
  return call('ZCARD', KEYS[1])
end
return call('ZRANGE', KEYS[1], 0, -1)
