-- put_entry: writes a complete catalog entry (a provider, a profile …), if the present version is the expected one.
-- KEYS     1 the entry   2 ids of its kind   3 meta
-- ARGV     1 its id   2 the expected version, or 0 for none   3 most entries of the kind   4 field of meta that
--          names the default, or empty when the kind has none
--          5 1: it becomes the default; then its fields and values
-- RETURNS  {"KEPT", version} | {"DIFFERS"} | {"FULL"}
-- CALLER   store/redis/catalog.rs, put
local call, K, A = redis.call, KEYS, ARGV
local there = call('HMGET', K[1], 'version', 'created_at')
if (there[1] or '0') ~= A[2] then return {'DIFFERS'} end
if not there[1] and call('SCARD', K[2]) >= tonumber(A[3]) then return {'FULL'} end
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- At least the time, so that no version is reused after lost writes.
local version = string.format('%.0f', math.max(tonumber(call('HGET', K[3], 'catalog') or 0) + 1, tonumber(now)))
call('HSET', K[3], 'catalog', version)
call('DEL', K[1])
for at = 6, #A, 2 do call('HSET', K[1], A[at], A[at + 1]) end
call('HSET', K[1], 'version', version, 'created_at', there[2] or now, 'updated_at', now)
call('SADD', K[2], A[1])
if A[4] ~= '' then
  local default = call('HGET', K[3], A[4])
  if A[5] == '1' or not default or call('SISMEMBER', K[2], default) == 0 then call('HSET', K[3], A[4], A[1]) end
end
return {'KEPT', version}
