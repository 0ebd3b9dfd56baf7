-- settle_notice: stores the result of sending a notice to the webhook of an app, if the notice still waits.
-- KEYS     1 apps with notices   2 notices of the app by due time   3 their records   4 those that were given up
-- ARGV     1 the app   2 the notice   3 "done", "later" or "given_up"   4 due time, ms   5 record   6 most given up
-- RETURNS  1, or 0 when it does not wait any more
-- CALLER   store/redis/webhooks.rs, settle_notice
local call, K, A = redis.call, KEYS, ARGV
if not call('ZSCORE', K[2], A[2]) then return 0 end
if A[3] == 'later' then
  call('HSET', K[3], A[2], A[5])
  call('ZADD', K[2], A[4], A[2])
  return 1
end
call('ZREM', K[2], A[2])
call('HDEL', K[3], A[2])
if call('EXISTS', K[2]) == 0 then call('SREM', K[1], A[1]) end
if A[3] == 'given_up' then
  call('LPUSH', K[4], A[5])
  call('LTRIM', K[4], 0, A[6] - 1)
end
return 1
