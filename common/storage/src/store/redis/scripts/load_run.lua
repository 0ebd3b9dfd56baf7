-- load_run: reads all parts of a run at one moment. Not a transaction: a full Redis refuses every queued command,
-- even reads, so nothing could be swept then.
-- KEYS     1 run   2 state   3 held   4 events   5 collected   6 pauses
-- ARGV     -
-- RETURNS  {fields and values of the run, of the state, held chunks, the last entry of the events, fields and values
--          of
--          the results of closed frames, of the pauses}
-- CALLER   store/redis/runs/one_run.rs, at_rest
local call, K = redis.call, KEYS
return {
  call('HGETALL', K[1]), call('HGETALL', K[2]), call('LRANGE', K[3], 0, -1),
  call('XREVRANGE', K[4], '+', '-', 'COUNT', 1), call('HGETALL', K[5]), call('HGETALL', K[6]),
}
