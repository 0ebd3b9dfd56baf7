-- put_plugin_value: stores or removes a value of a plugin, and counts the bytes of all: keys, digits and 100 each.
-- KEYS     1 values of the plugin
-- ARGV     1 field (`k:` and the key)   2 value in hexadecimal digits, or empty to remove it   3 the bytes that it counts, 0 to remove it
--          4 most bytes of all
-- RETURNS  {"STORED"} | {"FULL", bytes so far}
-- CALLER   store/redis/plugin_values.rs, put_plugin_value
local call, K, A = redis.call, KEYS, ARGV
local all = tonumber(call('HGET', K[1], 'bytes') or '0')
local before, old = call('HGET', K[1], A[1]), 0
if before then old = 100 + #A[1] - 2 + #before end
local now = all - old + tonumber(A[3])
if tonumber(A[3]) > old and now > tonumber(A[4]) then return {'FULL', string.format('%.0f', all)} end
if A[3] == '0' then
  call('HDEL', K[1], A[1])
  if now <= 0 then call('DEL', K[1]) return {'STORED'} end
  call('HSET', K[1], 'bytes', string.format('%.0f', now))
else
  call('HSET', K[1], A[1], A[2], 'bytes', string.format('%.0f', now))
end
return {'STORED'}
