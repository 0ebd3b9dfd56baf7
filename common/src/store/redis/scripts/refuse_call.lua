-- refuse_call: a called run is not made: its order is kept with the reason, and its caller is told; or nothing, when the
--          order waits no more.
-- KEYS     1 orders that wait   2 calls of the caller   3 inbox
-- ARGV     1 member of the orders   2 the called run   3 order with the reason   4 caller   5 kind of the fact   6 fact
-- RETURNS  "REFUSED" | "PASSED"
-- CALLER   store/redis/calls.rs, refuse
local call, K, A = redis.call, KEYS, ARGV
if call('ZREM', K[1], A[1]) == 0 then return 'PASSED' end
call('HSET', K[2], A[2], A[3])
call('XADD', K[3], '*', 'kind', A[5], 'run', A[4], 'fact', A[6])
return 'REFUSED'
