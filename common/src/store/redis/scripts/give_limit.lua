-- give_limit: a call to a model is over: its place is free, its tokens are set right, and the model rests if it has to.
-- KEYS     of each bucket three, as in take_limit; last how often the call was refused
-- ARGV     1 the call   2 tokens beyond those taken   3 how long it took, ms, or ""   4 ms that the first bucket rests, or 0
--          5 "1" when the provider refused it   6 seconds that an unused bucket is kept
--          7 8 requests and tokens that the provider says are left, or ""   9 10 how many the first bucket has a minute (0: no
--          bound)
-- RETURNS  how often the call was refused so far
-- CALLER   store/redis/limit.rs, give_turn
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #K - 1, 3 do
  -- Given once: a call whose lease has ended is not set right, since nobody knows what it took.
  if call('ZREM', K[at + 1], A[1]) == 1 then
    if A[2] ~= '0' and call('HEXISTS', K[at], 'tokens') == 1 then call('HINCRBYFLOAT', K[at], 'tokens', -A[2]) end
    if A[3] ~= '' then
      local before = tonumber(call('HGET', K[at], 'lasted') or A[3])
      call('HSET', K[at], 'lasted', string.format('%d', 0.8 * before + 0.2 * A[3]))
    end
  end
end
-- What the provider says lowers a level and never raises it: calls that it has not seen yet are counted here already.
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
