-- called: what is known of a run that another may have called, as of one moment.
-- KEYS     1 calls of the caller   2 orders that wait   3 the called run
-- ARGV     1 the called run   2 member of the orders
-- RETURNS  {order, or "" for none; "1" while it waits to be made; fields of the run}
-- CALLER   store/redis/calls.rs, called
local call, K, A = redis.call, KEYS, ARGV
local order = call('HGET', K[1], A[1])
if not order then return {'', '', {}} end
return {order, call('ZSCORE', K[2], A[2]) and '1' or '', call('HGETALL', K[3])}
