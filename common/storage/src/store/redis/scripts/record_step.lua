-- record_step: stores the result of a journal entry together with its fact, once; or neither.
-- KEYS     1 jobs stream   2 journal of the run   3 inbox   then, for a result with blobs: blobs of the run, its
--          blobs…
-- ARGV     1 group   2 consumer   3 entry   4 delivery number   5 field of the result   6 result   7 run   8 kind
--          9 fact   then per blob: name, size
-- RETURNS  "STORED" | "STALE" | "KNOWN" | "NOBLOB"
-- CALLER   store/redis/journal.rs, record_step
local call, K, A = redis.call, KEYS, ARGV
local held = call('XPENDING', K[1], A[1], A[3], A[3], 1, A[2])[1]
if not held or held[4] ~= tonumber(A[4]) then return 'STALE' end
for b = 5, #K do
  if call('EXISTS', K[b]) == 0 then return 'NOBLOB' end
end
if call('HSETNX', K[2], A[5], A[6]) == 0 then return 'KNOWN' end
for b = 5, #K do
  call('PERSIST', K[b])
  call('HSET', K[4], A[b * 2], A[b * 2 + 1])
end
call('XADD', K[3], '*', 'kind', A[8], 'run', A[7], 'fact', A[9])
return 'STORED'
