-- sweep_run: removes a bounded part of an ended run: some of its blobs, and with the last of them everything else.
-- KEYS     1 a key that never exists   2 fence   3 ended   4 runs   5 runs:<its status>   6 graphs   7 its graph
--          8 run   9 state   10 held   11 events   12 blobs of the run   13 collected   14 pauses   15 commands
--          16 journal   17 ledger   18 calls   19 runs with files   20 removed runs with files to delete
--          21 runs of its app, or runs again when it has none   22… when it has labels: all labels, and the runs of each of
--          its labels; blobs of this part; with the last part also the run's messages, `rt` and history
-- ARGV     1 epoch   2 run id   3 graph hash   4 "last" when no blob is left after this   5 ids of its labels, separated
--          by spaces   6… names of the blobs
-- RETURNS  "SWEPT" | "MORE" | "STALE"
-- CALLER   store/redis/shards.rs, sweep
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[1])
if call('HGET', K[2], 'epoch') ~= A[1] then return 'STALE' end
local labels = {}
for label in string.gmatch(A[5], '%S+') do labels[#labels + 1] = label end
local first = #labels > 0 and 23 + #labels or 22
for i = first, #K do call('UNLINK', K[i]) end
if #A >= 6 then call('HDEL', K[12], unpack(A, 6)) end
if A[4] ~= 'last' then return 'MORE' end
if call('ZREM', K[3], A[2]) == 0 then return 'SWEPT' end
call('UNLINK', unpack(K, 8, 18))
call('ZREM', K[4], A[2])
if K[21] ~= K[4] then call('ZREM', K[21], A[2]) end
for i, label in ipairs(labels) do
  call('ZREM', K[22 + i], A[2])
  if call('EXISTS', K[22 + i]) == 0 then call('ZREM', K[22], label) end
end
call('SMOVE', K[19], K[20], A[2])
call('ZREM', K[5], A[2])
if A[3] ~= '' and call('HINCRBY', K[6], A[3], -1) <= 0 then
  call('HDEL', K[6], A[3])
  call('UNLINK', K[7])
end
return 'SWEPT'
