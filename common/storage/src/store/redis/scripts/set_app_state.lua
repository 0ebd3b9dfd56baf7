-- set_app_state: sets the state of an app, unless it is being removed.
-- KEYS     1 app
-- ARGV     1 "on", "off" or "removing"
-- RETURNS  "SET" | "REMOVING" | "NONE" when there is no such app
-- CALLER   store/redis/removals.rs, set_app_state
local call, K, A = redis.call, KEYS, ARGV
if call('HEXISTS', K[1], 'version') == 0 then return 'NONE' end
if A[1] ~= 'removing' and call('HGET', K[1], 'state') == 'removing' then return 'REMOVING' end
if A[1] == 'on' then
  call('HDEL', K[1], 'state')
else
  call('HSET', K[1], 'state', A[1])
end
return 'SET'
