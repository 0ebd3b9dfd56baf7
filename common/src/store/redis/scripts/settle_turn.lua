-- settle_turn: what was said in a run that is over becomes a turn of its conversation, once.
-- KEYS     1 runs whose turns are to be settled   2 turns of the conversation   3 conversation
-- ARGV     1 run   2 turn, JSON   3 most turns that are kept   4 seconds that they are kept, 0 for ever
-- RETURNS  "SETTLED" | "BEFORE" when it was
-- CALLER   store/redis/conversations.rs, settle
local call, K, A = redis.call, KEYS, ARGV
if call('SREM', K[1], A[1]) == 0 then return 'BEFORE' end
call('RPUSH', K[2], A[2])
call('LTRIM', K[2], -tonumber(A[3]), -1)
for i = 2, 3 do
  if A[4] == '0' then call('PERSIST', K[i]) else call('EXPIRE', K[i], A[4]) end
end
return 'SETTLED'
