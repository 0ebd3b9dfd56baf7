-- called: the state of a sub-workflow run, read at one moment.
-- KEYS     1 calls of the caller   2 waiting orders   3 the sub-workflow run
-- ARGV     1 the sub-workflow run   2 member of the orders
-- RETURNS  {order, or "" when there is none; "1" while it waits to be created; fields of the run}
-- CALLER   store/redis/calls.rs, called
local call, K, A = redis.call, KEYS, ARGV
local order = call('HGET', K[1], A[1])
if not order then return {'', '', {}} end
return {order, call('ZSCORE', K[2], A[2]) and '1' or '', call('HGETALL', K[3])}
