-- give_back_uploads: the uploads of a removed user count no longer, for the user and the app: those of all days until one, except
-- some bytes of that day, which the user has uploaded since. Only bytes that were counted for the user are given back, so a
-- repeated call takes nothing from others.
-- KEYS     1 bytes of the app by day   2 bytes of the user by day
-- ARGV     1 the last day   2 bytes of that day that stay
-- RETURNS  the bytes that were given back
-- CALLER   store/redis/removals.rs, give_back_uploads
local call, K, A = redis.call, KEYS, ARGV
-- The first write, because a full Redis allows it: no day has this name.
call('HDEL', K[2], '')
local all, sum = call('HGETALL', K[2]), 0
for i = 1, #all, 2 do
  local day, back = all[i], tonumber(all[i + 1])
  if day > A[1] then back = 0 end
  if day == A[1] then back = back - tonumber(A[2]) end
  if back > 0 then
    sum = sum + back
    for at = 1, 2 do
      local left = call('HINCRBY', K[at], day, string.format('-%.0f', back))
      if left <= 0 then call('HDEL', K[at], day) end
    end
  end
end
return string.format('%.0f', sum)
