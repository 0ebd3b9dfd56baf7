-- take_limit: admits a model call in all its buckets, or in none and returns when to ask again.
-- KEYS     three per bucket: 1 its levels   2 calls in flight, by the end of their lease
--          3 waiting calls, by the time
--          at which they ask again
-- ARGV     1 the call   2 estimated tokens   3 its lease, ms   4 longest wait, ms   5 how long a call that does
--          not ask again keeps its place in the queue, ms   6 seconds that an unused bucket is kept; then three per
--          bucket: requests per minute, tokens per minute, concurrent calls (0: no limit)
-- RETURNS  {"TAKEN"} | {"WAIT", ms, "requests", "tokens", "concurrency" or "rest", number of the bucket from 1}
-- CALLER   store/redis/limit.rs, take_turn
local call, K, A = redis.call, KEYS, ARGV
local id, tokens, lease, longest, grace = A[1], tonumber(A[2]), tonumber(A[3]), tonumber(A[4]), tonumber(A[5])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.4f', number) end
local function level(kept, max, gone) return math.min(max, (tonumber(kept) or max) + gone * max / 60000) end

-- An admitted call stays admitted: the answer was lost, the worker crashed, or the lease is renewed.
if (tonumber(call('ZSCORE', K[2], id) or 0)) > now then
  for at = 1, #K, 3 do
    call('ZADD', K[at + 1], now + lease, id)
    call('EXPIRE', K[at], A[6])
    call('EXPIRE', K[at + 1], A[6])
  end
  return {'TAKEN'}
end

local left, held = {}, {wait = 0}
for at = 1, #K, 3 do
  local kept = call('HMGET', K[at], 'requests', 'tokens', 'at', 'rest_until', 'lasted')
  local requests_max, tokens_max, calls_max = tonumber(A[at + 6]), tonumber(A[at + 7]), tonumber(A[at + 8])
  call('ZREMRANGEBYSCORE', K[at + 1], '-inf', now)
  call('ZREMRANGEBYSCORE', K[at + 2], '-inf', now - grace)
  local mine = call('ZSCORE', K[at + 2], id)
  -- Calls that are due go first; a new call leaves room for them.
  local ahead = mine and 0 or call('ZCOUNT', K[at + 2], '-inf', now)
  local gone = math.max(0, now - (tonumber(kept[3]) or now))
  local function hold(wait, each, bound)
    if wait > held.wait then held = {wait = wait, each = each, bound = bound, at = at, mine = mine} end
  end
  local rest = (tonumber(kept[4]) or 0) - now
  if rest > 0 then hold(rest, requests_max > 0 and 60000 / requests_max or 0, 'rest') end
  if requests_max > 0 then
    left[at] = level(kept[1], requests_max, gone)
    hold((1 + ahead - left[at]) * 60000 / requests_max, 60000 / requests_max, 'requests')
  end
  if tokens_max > 0 then
    left[at + 1] = level(kept[2], tokens_max, gone)
    -- A call that needs more than a minute's tokens waits for a full bucket, and leaves it below zero.
    local need = math.min(tokens, tokens_max)
    local room = math.min(need * (1 + ahead), tokens_max)
    hold((room - left[at + 1]) * 60000 / tokens_max, need * 60000 / tokens_max, 'tokens')
  end
  if calls_max > 0 and call('ZCARD', K[at + 1]) + ahead >= calls_max then
    local each = (tonumber(kept[5]) or 1000) / calls_max
    hold(math.max(each, 50), each, 'concurrency')
  end
end

if held.bound then
  local queue, due = K[held.at + 2], now + math.min(math.max(1, math.ceil(held.wait)), longest)
  if not held.mine then
    local last = call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    if last then due = math.min(math.max(due, math.ceil(tonumber(last) + held.each)), now + longest) end
  end
  call('ZADD', queue, due, id)
  call('EXPIRE', queue, A[6])
  return {'WAIT', tostring(due - now), held.bound, tostring((held.at + 2) / 3)}
end

for at = 1, #K, 3 do
  if left[at] then call('HSET', K[at], 'requests', text(left[at] - 1)) end
  if left[at + 1] then call('HSET', K[at], 'tokens', text(left[at + 1] - tokens)) end
  call('HSET', K[at], 'at', now)
  call('ZADD', K[at + 1], now + lease, id)
  call('ZREM', K[at + 2], id)
  call('EXPIRE', K[at], A[6])
  call('EXPIRE', K[at + 1], A[6])
end
return {'TAKEN'}
