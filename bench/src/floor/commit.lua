-- commit: a batch of results becomes state, next jobs and events, and the cursor moves past them.
-- KEYS     1 cursor hash   2 jobs   3 done
-- ARGV     1 cursor   then a result each: run, node, output, first next node, number of next nodes, whether the run is over
-- RETURNS  1
-- CALLER   floor/owner.rs. Keys of runs are made here, which is well on the single node that is measured.
local call, A = redis.call, ARGV
call('HSET', KEYS[1], 'inbox', A[1])
for i = 2, #A, 6 do
  local run, node, output = A[i], A[i + 1], A[i + 2]
  local first, count = tonumber(A[i + 3]), tonumber(A[i + 4])
  local state, events = 'run:' .. run, 'events:' .. run
  call('HSET', state, 's:' .. node, 'done', 'o:' .. node, output, 'at', node)
  call('XADD', events, '*', 't', 'node_finished', 'n', node, 'o', output)
  for next = first, first + count - 1 do
    call('XADD', KEYS[2], '*', 'r', run, 'n', next, 'p', output)
    call('XADD', events, '*', 't', 'node_started', 'n', next)
  end
  if A[i + 5] == '1' then
    call('XADD', events, '*', 't', 'run_finished')
    call('XADD', KEYS[3], '*', 'r', run)
  end
end
return 1
