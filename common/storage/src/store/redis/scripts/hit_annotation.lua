-- hit_annotation: counts a use of an annotation and stores it.
-- KEYS     1 records   2 counts   3 its hits   4 messages that were answered from an annotation
-- ARGV     1 id   2 hit, JSON   3 hits that are kept   4 id of the message
-- RETURNS  "COUNTED" | "NONE" when there is no such annotation
-- CALLER   store/redis/annotations.rs, hit_annotation
local call, K, A = redis.call, KEYS, ARGV
if call('HEXISTS', K[1], A[1]) == 0 then return 'NONE' end
call('HINCRBY', K[2], A[1], 1)
call('HSET', K[4], A[4], A[1])
for _ = tonumber(A[3]) + 1, call('LPUSH', K[3], A[2]) do
  call('HDEL', K[4], cjson.decode(call('RPOP', K[3]))['message_id'])
end
return 'COUNTED'
