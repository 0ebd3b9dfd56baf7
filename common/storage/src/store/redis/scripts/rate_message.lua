-- rate_message: stores a user's rating of a message, for as long as the message's turn is kept, and lists it under its
-- app.
-- KEYS     1 conversation   2 ratings   3 ratings of the app
-- ARGV     1 app   2 user   3 message   4 rating, JSON, or empty to remove it   5 conversation and message, the member
--          of the list   6 now, ms   7 most entries of the list
-- RETURNS  "DONE" | "ABSENT" when there is no rating to remove | "NONE" when this app and user have no such
--          conversation
-- CALLER   store/redis/conversations.rs, rate
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last')
if not known[3] or known[1] ~= A[1] or known[2] ~= A[2] then return 'NONE' end
if A[4] == '' then
  if call('HDEL', K[2], A[3]) == 0 then return 'ABSENT' end
  call('ZREM', K[3], A[5])
  return 'DONE'
end
-- A second rating of a message keeps the time of the first.
if call('HEXISTS', K[2], A[3]) == 0 then call('ZREM', K[3], A[5]) end
call('HSET', K[2], A[3], A[4])
local left = call('PTTL', K[1])
if left > 0 then call('PEXPIRE', K[2], left) else call('PERSIST', K[2]) end
call('ZADD', K[3], 'NX', A[6], A[5])
call('ZREMRANGEBYRANK', K[3], 0, -1 - tonumber(A[7]))
return 'DONE'
