-- create_run: creates a scheduled run with its first fact, or nothing. May be repeated: the run's id decides. For a
-- run of a schedule it also moves the schedule to the next time, and creates the run only while the given time is
-- still due. For a sub-workflow run it also removes the order, and creates the run only while the order waits.
-- KEYS     1 run   2 inbox   3 runs   4 runs:scheduled   5 graph   6 graphs   7 blobs of the run   8 schedules,
--          or orders of sub-workflow runs
--          9 runs with files   10 runs of its app, or runs again when it has none   11 what closes its app, or runs
--          again   12… queues it uses; when it has labels: all labels, and the runs of each of its labels; its blobs;
--          last, when it takes the messages of its conversation: the conversation, its messages, those of the run, the
--          run's state
-- ARGV     1 limit of the inbox   2 run id   3 created at, us   4 graph hash   5 graph document, or empty when the
--          shard has it   6 start fact   7 its kind   8 limit of a queue   9 number of queues   10 number of fields
--          11 trigger that fires it, or member of the orders, or empty   12 its score   13 the next one, or empty
--          14 "files" when files were stored for it, "messages" when it takes those of its conversation, "both", or
--          empty   15 ids of its labels, separated by spaces
--          16… field, value   then per blob: name, size
-- RETURNS  "CREATED" | "EXISTS" | "PASSED" | "BUSY" | "QUEUE" | "NOGRAPH" | "NOBLOB" | "off" or "removing": the state
--          of its app, which accepts no runs
-- CALLER   store/redis/runs/create.rs, create
local call, K, A = redis.call, KEYS, ARGV
local function move()
  if A[11] == '' then return end
  if A[13] == '' then
    call('ZREM', K[8], A[11])
  else
    call('ZADD', K[8], A[13], A[11])
  end
end
if A[11] ~= '' and tonumber(call('ZSCORE', K[8], A[11]) or -1) ~= tonumber(A[12]) then return 'PASSED' end
if call('EXISTS', K[1]) == 1 then
  move()
  return 'EXISTS'
end
local closed = K[11] ~= K[3] and call('GET', K[11])
if closed then return closed end
if call('XLEN', K[2]) >= tonumber(A[1]) then return 'BUSY' end
local takes = A[14] == 'messages' or A[14] == 'both'
local last_blob = takes and #K - 4 or #K
local labels = {}
for label in string.gmatch(A[15], '%S+') do labels[#labels + 1] = label end
local all_labels = 12 + tonumber(A[9])
local first = #labels > 0 and all_labels + 1 + #labels or all_labels
for i = 12, all_labels - 1 do
  if call('XLEN', K[i]) >= tonumber(A[8]) then return 'QUEUE' end
end
if A[5] == '' and call('EXISTS', K[5]) == 0 then return 'NOGRAPH' end
for i = first, last_blob do
  if call('EXISTS', K[i]) == 0 then return 'NOBLOB' end
end
local last = 15 + tonumber(A[10]) * 2
call('HSET', K[1], unpack(A, 16, last))
local index = takes and call('HGET', K[last_blob + 1], 'messages')
if index then
  call('COPY', K[last_blob + 2], K[last_blob + 3], 'REPLACE')
  call('PERSIST', K[last_blob + 3])
  call('HSET', K[last_blob + 4], 'm:main', index)
  call('HSET', K[1], 'objects', 'messages:main')
end
if A[5] ~= '' then call('SET', K[5], A[5], 'NX') end
call('HINCRBY', K[6], A[4], 1)
call('ZADD', K[3], A[3], A[2])
call('ZADD', K[4], A[3], A[2])
if K[10] ~= K[3] then call('ZADD', K[10], A[3], A[2]) end
for i, label in ipairs(labels) do
  call('ZADD', K[all_labels + i], A[3], A[2])
  call('ZADD', K[all_labels], A[3], label)
end
for i = first, last_blob do
  local at = last + 1 + (i - first) * 2
  call('PERSIST', K[i])
  call('HSET', K[7], A[at], A[at + 1])
end
if A[14] == 'files' or A[14] == 'both' then call('SADD', K[9], A[2]) end
move()
call('XADD', K[2], '*', 'kind', A[7], 'run', A[2], 'fact', A[6])
return 'CREATED'
