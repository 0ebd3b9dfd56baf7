-- drop_app: removes an app together with the record of its removal. So a removal that is done never meets a new app with the
-- same id: that one is not made while the record exists.
-- KEYS     1 apps   2 removals   3 app   4 versions of the app   5… documents of the versions
-- ARGV     1 id of the app   2 the record of the removal
-- RETURNS  "DROPPED" | "OTHER" when another record is stored, or none
-- CALLER   store/redis/removals.rs, drop_app
local call, K, A = redis.call, KEYS, ARGV
if call('HGET', K[2], A[1]) ~= A[2] then return 'OTHER' end
for i = 3, #K do call('UNLINK', K[i]) end
call('SREM', K[1], A[1])
call('HDEL', K[2], A[1])
return 'DROPPED'
