-- report: a batch of results goes to the inbox, their jobs are acknowledged.
-- KEYS     1 inbox   2 jobs
-- ARGV     1 group   then a result each: entry of its job, run, node, output
-- RETURNS  1
-- CALLER   floor/worker.rs
local call, A = redis.call, ARGV
local entries = {}
for i = 2, #A, 4 do
  entries[#entries + 1] = A[i]
  call('XADD', KEYS[1], '*', 'r', A[i + 1], 'n', A[i + 2], 'p', A[i + 3])
end
call('XACK', KEYS[2], A[1], unpack(entries))
return 1
