-- give_limit: a call to a model is over: its place is free, its tokens are set right, and the model rests if it has to.
-- KEYS     of each bucket three, as in take_limit; last how often the call was refused
-- ARGV     1 the call   2 tokens beyond those taken   3 how long it took, ms, or ""   4 ms that the first bucket rests, or 0
--          5 "1" when the provider refused it   6 seconds that an unused bucket is kept
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
if tonumber(A[4]) > 0 then
  local rests = tonumber(call('HGET', K[1], 'rest_until') or 0)
  call('HSET', K[1], 'rest_until', string.format('%d', math.max(rests, now + A[4])))
  call('EXPIRE', K[1], A[6])
end
if A[5] ~= '1' then return tonumber(call('GET', K[#K]) or 0) end
local refused = call('INCR', K[#K])
call('EXPIRE', K[#K], A[6])
return refused
