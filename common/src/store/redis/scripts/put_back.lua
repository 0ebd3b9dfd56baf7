-- put_back: a fact that was given up on into the inbox after all, if its run is there and not over; the letter goes with
-- it, so that it is applied once.
-- KEYS     1 dead   2 run   3 inbox
-- ARGV     1 letter   2 run id   3 kind   4 fact
-- RETURNS  "DONE" | "GONE" | "NORUN" | the status of a run that is over
-- CALLER   store/redis/dead.rs, put_fact_back
local call, K, A = redis.call, KEYS, ARGV
if #call('XRANGE', K[1], A[1], A[1]) == 0 then return 'GONE' end
local status = call('HGET', K[2], 'status')
if not status then return 'NORUN' end
if status ~= 'scheduled' and status ~= 'running' and status ~= 'paused' then return status end
-- First of the writes, since a full Redis refuses it: all or nothing.
call('XADD', K[3], '*', 'kind', A[3], 'run', A[2], 'fact', A[4])
call('XDEL', K[1], A[1])
return 'DONE'
