-- refuse_call: refuses to create a sub-workflow run: stores the order with the reason and informs the caller. Does
-- nothing when the order no longer waits.
-- KEYS     1 waiting orders   2 calls of the caller   3 inbox
-- ARGV     1 member of the orders   2 the sub-workflow run   3 order with the reason   4 caller
--          5 kind of the fact   6 fact
-- RETURNS  "REFUSED" | "PASSED"
-- CALLER   store/redis/calls.rs, refuse
local call, K, A = redis.call, KEYS, ARGV
if call('ZREM', K[1], A[1]) == 0 then return 'PASSED' end
call('HSET', K[2], A[2], A[3])
call('XADD', K[3], '*', 'kind', A[5], 'run', A[4], 'fact', A[6])
return 'REFUSED'
