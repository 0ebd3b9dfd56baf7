-- charge_upload: counts an upload for its app and its user, or refuses it when one of them would be over the quota.
-- KEYS     1 bytes of the app by day   2 bytes of the user by day
-- ARGV     1 day of the upload   2 first day whose uploads are kept, or empty   3 bytes (negative: given back)
--          4 most bytes of the app   5 most bytes of the user (0: no limit)   6 seconds to keep the counts (0: always)
-- RETURNS  {"TAKEN"} | {"APP", bytes so far} | {"USER", bytes so far}
-- CALLER   store/redis/uploads.rs, charge
local call, K, A = redis.call, KEYS, ARGV
local function used(key)
  local all, sum = call('HGETALL', key), 0
  for at = 1, #all, 2 do
    if all[at] < A[2] then call('HDEL', key, all[at]) else sum = sum + tonumber(all[at + 1]) end
  end
  return sum
end
local bytes = tonumber(A[3])
for at, who in ipairs({'APP', 'USER'}) do
  local max, have = tonumber(A[at + 3]), used(K[at])
  if max > 0 and have + bytes > max then return {who, string.format('%.0f', have)} end
end
for at = 1, 2 do
  call('HINCRBY', K[at], A[1], A[3])
  if A[6] ~= '0' then call('EXPIRE', K[at], A[6]) end
end
return {'TAKEN'}
