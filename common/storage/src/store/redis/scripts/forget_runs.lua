-- forget_runs: hides runs of a removed conversation, inner runs, or any runs. Those that have ended are removed at the next look
-- of the shard's owner, as if they were older than all others.
-- KEYS     1 ended   2 a key that never exists   3… runs
-- ARGV     1 id of the conversation, or empty: the runs are inner runs, or "*": all that exist   2… ids of the runs
-- RETURNS  the number of runs that were not hidden before
-- CALLER   store/redis/app_records.rs, forget
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[2])
local hidden = 0
local function is_meant(run)
  if A[1] == '*' then return call('EXISTS', run) == 1 end
  if A[1] == '' then return call('HEXISTS', run, 'inner') == 1 end
  return call('HGET', run, 'conversation_id') == A[1]
end
for i = 3, #K do
  if is_meant(K[i]) then
    hidden = hidden + call('HSET', K[i], 'removed', '1')
    call('ZADD', K[1], 'XX', '0', A[i - 1])
  end
end
return tostring(hidden)
