-- rate_message: stores a user's rating of a message, for as long as the message's turn is kept.
-- KEYS     1 conversation   2 ratings
-- ARGV     1 app   2 user   3 message   4 rating, JSON, or empty to remove it
-- RETURNS  "DONE" | "ABSENT" when there is no rating to remove | "NONE" when this app and user have no such
--          conversation
-- CALLER   store/redis/conversations.rs, rate
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last')
if not known[3] or known[1] ~= A[1] or known[2] ~= A[2] then return 'NONE' end
if A[4] == '' then return call('HDEL', K[2], A[3]) == 1 and 'DONE' or 'ABSENT' end
call('HSET', K[2], A[3], A[4])
local left = call('PTTL', K[1])
if left > 0 then call('PEXPIRE', K[2], left) else call('PERSIST', K[2]) end
return 'DONE'
