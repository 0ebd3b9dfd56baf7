-- set_app_state: sets the state of an app, unless it is being removed. Only a removal that is stored may set "removing".
-- KEYS     1 a key that never exists   2 app   3 removals
-- ARGV     1 "on", "off" or "removing"   2 id of the app
-- RETURNS  "SET" | "REMOVING" | "NONE" when there is no such app | "OVER" when no removal of the app is stored
-- CALLER   store/redis/removals.rs, set_app_state
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[1])
if A[1] == 'removing' and call('HEXISTS', K[3], A[2]) == 0 then return 'OVER' end
if call('HEXISTS', K[2], 'version') == 0 then return 'NONE' end
if A[1] ~= 'removing' and call('HGET', K[2], 'state') == 'removing' then return 'REMOVING' end
if A[1] == 'on' then
  call('HDEL', K[2], 'state')
else
  call('HSET', K[2], 'state', A[1])
end
return 'SET'
