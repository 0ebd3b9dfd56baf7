-- move_schedule: sets another due time of a schedule, unless it was moved in between.
-- KEYS     1 schedules of the shard
-- ARGV     1 trigger id   2 the present due time, ms   3 the next one, or empty for none
-- RETURNS  "MOVED" | "PASSED"
-- CALLER   store/redis/triggers.rs, move_due
local call, K, A = redis.call, KEYS, ARGV
if tonumber(call('ZSCORE', K[1], A[1]) or -1) ~= tonumber(A[2]) then return 'PASSED' end
if A[3] == '' then
  call('ZREM', K[1], A[1])
else
  call('ZADD', K[1], A[3], A[1])
end
return 'MOVED'
