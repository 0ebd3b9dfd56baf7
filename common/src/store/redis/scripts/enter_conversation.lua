-- enter_conversation: a run becomes the newest of a conversation, which begins with it if there is none. May be repeated.
-- KEYS     1 conversation
-- ARGV     1 run   2 app   3 user   4 now, ms   5 seconds that it is kept, 0 for ever   6 1 when it must be there
-- RETURNS  {turn, run before it or empty} | {} when there is none, or it is of another app or user
-- CALLER   store/redis/conversations.rs, enter
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last', 'before', 'dialogue')
if known[3] == A[1] then return {known[5], known[4] or ''} end
if known[3] then
  if known[1] ~= A[2] or known[2] ~= A[3] then return {} end
elseif A[6] == '1' then
  return {}
else
  call('HSET', K[1], 'app', A[2], 'user', A[3], 'created_at', A[4])
end
call('HSET', K[1], 'last', A[1], 'before', known[3] or '', 'updated_at', A[4])
local turn = call('HINCRBY', K[1], 'dialogue', 1)
if A[5] == '0' then call('PERSIST', K[1]) else call('EXPIRE', K[1], A[5]) end
return {tostring(turn), known[3] or ''}
