-- index_runs: lists runs of a shard under their apps that a version without this list has created, and notes how far
-- it came. In a full Redis it is refused: the list can wait.
-- KEYS     1 fence   2 progress   3… per run: the run, the runs of its app
-- ARGV     1 epoch   2 the progress   3… per run: its app, its id, created at, us
-- RETURNS  "LISTED" | "STALE"
-- CALLER   store/redis/runs_of_app.rs, index_runs
local call, K, A = redis.call, KEYS, ARGV
if call('HGET', K[1], 'epoch') ~= A[1] then return 'STALE' end
for i = 3, #K, 2 do
  local at = 3 + (i - 3) / 2 * 3
  -- It may have been removed since it was read.
  if call('HGET', K[i], 'app') == A[at] then call('ZADD', K[i + 1], A[at + 2], A[at + 1]) end
end
call('SET', K[2], A[2])
return 'LISTED'
