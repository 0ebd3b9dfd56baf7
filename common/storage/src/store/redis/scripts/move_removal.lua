-- move_removal: stores a removal of an app or a user, its progress, or that it is done, unless another process has done so
-- since.
-- KEYS     1 removals
-- ARGV     1 id   2 the text before, or empty when it begins   3 the text after, or empty when it is done
-- RETURNS  "MOVED" | "OTHER" when another text is stored, or none
-- CALLER   store/redis/removals.rs, move_removal
local call, K, A = redis.call, KEYS, ARGV
if (call('HGET', K[1], A[1]) or '') ~= A[2] then return 'OTHER' end
if A[3] == '' then
  call('HDEL', K[1], A[1])
else
  call('HSET', K[1], A[1], A[3])
end
return 'MOVED'
