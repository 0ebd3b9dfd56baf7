-- give_limit: ends a model call: frees its place, corrects its tokens, and pauses the model if asked to.
-- KEYS     three per bucket, as in take_limit; last the counter of refusals of the call
-- ARGV     1 the call   2 tokens beyond the estimate   3 duration, ms, or ""   4 ms to pause the first bucket, or 0
--          5 "1" when the provider refused it   6 seconds that an unused bucket is kept
--          7 8 requests and tokens that the provider says are left, or ""   9 10 the first bucket's limits per minute
--          (0: no limit)
-- RETURNS  the number of refusals of the call so far
-- CALLER   store/redis/limit.rs, give_turn
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #K - 1, 3 do
  -- Only once. After the lease has ended nothing is corrected, because the true use is unknown.
  if call('ZREM', K[at + 1], A[1]) == 1 then
    if A[2] ~= '0' and call('HEXISTS', K[at], 'tokens') == 1 then call('HINCRBYFLOAT', K[at], 'tokens', -A[2]) end
    if A[3] ~= '' then
      local before = tonumber(call('HGET', K[at], 'lasted') or A[3])
      call('HSET', K[at], 'lasted', string.format('%d', 0.8 * before + 0.2 * A[3]))
    end
  end
end
-- Only lowers a level: the provider may not have counted calls yet that are counted here.
if (A[7] ~= '' or A[8] ~= '') and A[9] + A[10] > 0 then
  local kept = call('HMGET', K[1], 'requests', 'tokens', 'at')
  local gone = math.max(0, now - (tonumber(kept[3]) or now))
  for at, name in ipairs({'requests', 'tokens'}) do
    local max = tonumber(A[at + 8])
    if max > 0 then
      local level = math.min(max, (tonumber(kept[at]) or max) + gone * max / 60000)
      call('HSET', K[1], name, string.format('%.4f', math.min(level, tonumber(A[at + 6]) or level)))
    end
  end
  call('HSET', K[1], 'at', now)
  call('EXPIRE', K[1], A[6])
end
if tonumber(A[4]) > 0 then
  local rests = tonumber(call('HGET', K[1], 'rest_until') or 0)
  call('HSET', K[1], 'rest_until', string.format('%d', math.max(rests, now + A[4])))
  call('EXPIRE', K[1], A[6])
end
if A[5] ~= '1' then return tonumber(call('GET', K[#K]) or 0) end
local refused = call('INCR', K[#K])
call('EXPIRE', K[#K], A[6])
return refused
