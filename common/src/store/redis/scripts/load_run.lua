-- load_run: everything of a run, as of one moment. No transaction, since a full Redis refuses whatever is queued in one,
-- reads as well: nothing could be swept there.
-- KEYS     1 run   2 state   3 held   4 events   5 collected   6 pauses
-- ARGV     -
-- RETURNS  {fields and values of the run, of the state, held chunks, the last entry of the events, fields and values of
--          what was collected, of the pauses}
-- CALLER   store/redis/runs.rs, at_rest
local call, K = redis.call, KEYS
return {
  call('HGETALL', K[1]), call('HGETALL', K[2]), call('LRANGE', K[3], 0, -1),
  call('XREVRANGE', K[4], '+', '-', 'COUNT', 1), call('HGETALL', K[5]), call('HGETALL', K[6]),
}
