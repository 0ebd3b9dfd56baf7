-- remove_entry: removes a catalog entry. When it was the default profile, another one becomes the default.
-- KEYS     1 the entry   2 ids of its kind   3 meta
-- ARGV     1 its id   2 field of meta that names the default, or empty when the kind has none
--          3 the new default if this
--          was the default; if that one does not exist, the first by id
--          4 the expected version, or empty for any
-- RETURNS  "REMOVED" | "GONE" | "DIFFERS"
-- CALLER   store/redis/catalog.rs, remove
local call, K, A = redis.call, KEYS, ARGV
if A[4] ~= '' and call('EXISTS', K[1]) == 1 and call('HGET', K[1], 'version') ~= A[4] then return 'DIFFERS' end
local was = call('SREM', K[2], A[1]) + call('DEL', K[1])
if was == 0 then return 'GONE' end
local time = call('TIME')
-- At least the time, as in put_entry.
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local version = math.max(tonumber(call('HGET', K[3], 'catalog') or 0) + 1, now)
call('HSET', K[3], 'catalog', string.format('%.0f', version))
if A[2] ~= '' and call('HGET', K[3], A[2]) == A[1] then
  local heir = A[3]
  if heir == '' or call('SISMEMBER', K[2], heir) == 0 then
    local left = call('SMEMBERS', K[2])
    table.sort(left)
    heir = left[1]
  end
  if heir then call('HSET', K[3], A[2], heir) else call('HDEL', K[3], A[2]) end
end
return 'REMOVED'
