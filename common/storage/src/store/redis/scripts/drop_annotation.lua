-- drop_annotation: removes an annotation with its hits.
-- KEYS     1 records   2 order   3 questions, see put_annotation   4 counts   5 its hits
--          6 messages that were answered from an annotation
-- ARGV     1 id
-- RETURNS  "DROPPED" | "NONE"
-- CALLER   store/redis/annotations.rs, drop_annotation
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
if not known then return 'NONE' end
local key = cjson.decode(known)['key']
local rest = ''
for id in string.gmatch(call('HGET', K[3], key) or '', '%S+') do
  if id ~= A[1] then rest = rest .. ' ' .. id end
end
for _, hit in ipairs(call('LRANGE', K[5], 0, -1)) do
  call('HDEL', K[6], cjson.decode(hit)['message_id'])
end
call('UNLINK', K[5])
call('HDEL', K[1], A[1])
call('ZREM', K[2], A[1])
call('HDEL', K[4], A[1])
if rest == '' then call('HDEL', K[3], key) else call('HSET', K[3], key, rest) end
return 'DROPPED'
