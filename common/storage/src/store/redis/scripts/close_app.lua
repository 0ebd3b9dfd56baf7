-- close_app: marks an app on a shard, for create_run: it accepts no runs.
-- KEYS     1 a key that never exists   2 what closes the app
-- ARGV     1 "off" or "removing"   2 seconds that this is kept, 0 for ever
-- RETURNS  "SET"
-- CALLER   store/redis/app_states.rs, close
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[1])
if A[2] == '0' then
  call('SET', K[2], A[1])
else
  call('SET', K[2], A[1], 'EX', A[2])
end
return 'SET'
