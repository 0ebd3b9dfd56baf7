-- give_back_upload: an upload that is removed before its day counts no longer for its app and its user. Only bytes that were
-- counted for the user are given back, so a repeated call takes nothing from others.
-- KEYS     1 bytes of the app by day   2 bytes of the user by day
-- ARGV     1 day of the upload   2 bytes
-- RETURNS  the bytes that were given back
-- CALLER   store/redis/removals.rs, give_back_upload
local call, K, A = redis.call, KEYS, ARGV
-- The first write, because a full Redis allows it: no day has this name.
call('HDEL', K[2], '')
local counted = tonumber(call('HGET', K[2], A[1]) or 0)
local back = math.max(math.min(counted, tonumber(A[2])), 0)
if back == 0 then return '0' end
for at = 1, 2 do
  local left = call('HINCRBY', K[at], A[1], string.format('-%.0f', back))
  if left <= 0 then call('HDEL', K[at], A[1]) end
end
return string.format('%.0f', back)
