-- note_trigger: stores the last result of a trigger, if the trigger still exists.
-- KEYS     1 trigger
-- ARGV     1 the run that began, or empty on failure   2 when, us   3 the error, or empty
-- RETURNS  "NOTED" | "GONE"
-- CALLER   store/redis/triggers.rs, note
local call, K, A = redis.call, KEYS, ARGV
if call('EXISTS', K[1]) == 0 then return 'GONE' end
if A[1] ~= '' then call('HSET', K[1], 'run', A[1], 'fired_at', A[2]) end
if A[3] ~= '' then
  call('HSET', K[1], 'error', A[3])
else
  call('HDEL', K[1], 'error')
end
return 'NOTED'
