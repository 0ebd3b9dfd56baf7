-- forget_runs: hides runs of a removed conversation. Those that have ended are removed at the next look of the shard's
-- owner, as if they were older than all others.
-- KEYS     1 ended   2… runs
-- ARGV     1 id of the conversation   2… ids of the runs
-- RETURNS  the number of runs that are hidden
-- CALLER   store/redis/app_records.rs, forget_runs
local call, K, A = redis.call, KEYS, ARGV
local hidden = 0
for i = 2, #K do
  if call('HGET', K[i], 'conversation_id') == A[1] then
    call('HSET', K[i], 'removed', '1')
    call('ZADD', K[1], 'XX', '0', A[i])
    hidden = hidden + 1
  end
end
return tostring(hidden)
