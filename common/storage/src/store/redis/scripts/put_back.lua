-- put_back: appends a dead fact to the inbox of its run, if the run exists and has not ended. Deletes the dead
-- letter, so that the fact is applied once.
-- KEYS     1 dead   2 run   3 inbox
-- ARGV     1 dead letter   2 run id   3 kind   4 fact
-- RETURNS  "DONE" | "GONE" | "NORUN" | the status of an ended run
-- CALLER   store/redis/dead.rs, put_fact_back
local call, K, A = redis.call, KEYS, ARGV
if #call('XRANGE', K[1], A[1], A[1]) == 0 then return 'GONE' end
local status = call('HGET', K[2], 'status')
if not status then return 'NORUN' end
if status ~= 'scheduled' and status ~= 'running' and status ~= 'paused' then return status end
-- The first write, because a full Redis refuses it: all or nothing.
call('XADD', K[3], '*', 'kind', A[3], 'run', A[2], 'fact', A[4])
call('XDEL', K[1], A[1])
return 'DONE'
