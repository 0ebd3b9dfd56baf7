-- change_conversation: sets fields of an existing conversation of this app and user, and the large value of one.
-- KEYS     1 conversation   2 turns   3 ratings   4 the user's list by use   5 the user's list by begin
--          6… copies of
--          large variables, the changed one first, messages
-- ARGV     1 app   2 user   3 id   4 seconds that it is kept, 0 for ever
--          5 now, us, when it counts as used; or empty
--          6 "set" or "drop" for the first copy, or empty   7 its content   8… field, value
-- RETURNS  "CHANGED" | "NONE"
-- CALLER   store/redis/conversations.rs, change
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last')
if not known[3] or known[1] ~= A[1] or known[2] ~= A[2] then return 'NONE' end
call('HSET', K[1], unpack(A, 8))
if A[6] == 'set' then call('SET', K[6], A[7]) elseif A[6] == 'drop' then call('UNLINK', K[6]) end
local function keep(from, to, seconds)
  for i = from, to do
    if seconds == 0 then call('PERSIST', K[i]) else call('EXPIRE', K[i], seconds) end
  end
end
keep(1, 3, tonumber(A[4]))
keep(6, #K, tonumber(A[4]))
if A[5] ~= '' then call('ZADD', K[4], A[5], A[3]) end
keep(4, 5, 2 * tonumber(A[4]))
return 'CHANGED'
