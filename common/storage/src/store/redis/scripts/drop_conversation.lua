-- drop_conversation: removes a conversation of this app and user with all its parts, or removes a lost one from the
-- lists.
-- KEYS     1 conversation   2 turns   3 ratings   4 the user's list by use   5 the user's list by begin
--          6… copies of large variables, messages
-- ARGV     1 app   2 user   3 id   4 1 when the conversation must have expired already
-- RETURNS  "DROPPED" | "NONE" when this app and user have none | "THERE" when it has not expired
-- CALLER   store/redis/conversations.rs, remove
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last')
local is_theirs = known[3] and known[1] == A[1] and known[2] == A[2]
if A[4] == '1' and is_theirs then return 'THERE' end
if A[4] ~= '1' and not is_theirs then return 'NONE' end
call('ZREM', K[4], A[3])
call('ZREM', K[5], A[3])
if A[4] ~= '1' then
  call('UNLINK', K[1], K[2], K[3])
  for i = 6, #K do call('UNLINK', K[i]) end
end
return 'DROPPED'
