-- drop_webhook: removes the webhook of an app, and counts the change. The first write is a removal, which a full Redis allows:
-- an app must be removable then, too.
-- KEYS     1 webhooks
-- ARGV     1 the app   2 the field that counts changes
-- RETURNS  "DROPPED" | "NONE"
-- CALLER   store/redis/webhooks.rs, put_webhook
local call, K, A = redis.call, KEYS, ARGV
if call('HDEL', K[1], A[1]) == 0 then return 'NONE' end
call('HINCRBY', K[1], A[2], 1)
return 'DROPPED'
