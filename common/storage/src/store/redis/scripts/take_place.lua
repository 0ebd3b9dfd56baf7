-- take_place: takes a place for a run among the runs of its app and of its API key that work at the same time, or none.
-- KEYS     1 places of the app   2 places of the key, or those of the app again when the run has no key
-- ARGV     1 the place in the set of the app   2 run id   3 most runs of the app   4 most runs of the key (0: no limit)
--          5 seconds that unused sets are kept
-- RETURNS  "TAKEN" | "HELD" | "APP" | "KEY"
-- CALLER   store/redis/app_limits.rs, take_place
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is_held = call('ZSCORE', K[1], A[1])
if not is_held then
  local app_max, key_max = tonumber(A[3]), tonumber(A[4])
  if app_max > 0 and call('ZCARD', K[1]) >= app_max then return 'APP' end
  if key_max > 0 and K[2] ~= K[1] and call('ZCARD', K[2]) >= key_max then return 'KEY' end
end
call('ZADD', K[1], now, A[1])
call('EXPIRE', K[1], A[5])
if K[2] ~= K[1] then
  call('ZADD', K[2], now, A[2])
  call('EXPIRE', K[2], A[5])
end
return is_held and 'HELD' or 'TAKEN'
