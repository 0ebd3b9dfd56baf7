-- take_request: counts a request for its app and its API key, or for neither and says when the next one is possible. Each
-- key holds the time up to which the allowed requests are used; one second may be used in advance.
-- KEYS     1 requests of the app   2 requests of the key
-- ARGV     1 requests per second of the app   2 those of the key (0: no limit)
-- RETURNS  {"TAKEN"} | {"APP", ms} | {"KEY", ms}
-- CALLER   store/redis/app_limits.rs, take_request
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local used = {}
for at, who in ipairs({'APP', 'KEY'}) do
  local max = tonumber(A[at])
  if max > 0 then
    used[at] = math.max(now, tonumber(call('GET', K[at]) or 0)) + 1000000 / max
    local over = used[at] - now - 1000000
    -- Less than a microsecond comes from rounding.
    if over >= 1 then return {who, string.format('%.0f', math.ceil(over / 1000))} end
  end
end
for at = 1, 2 do
  if used[at] then call('SET', K[at], string.format('%.2f', used[at]), 'PX', 2000) end
end
return {'TAKEN'}
