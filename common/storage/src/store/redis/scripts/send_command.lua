-- send_command: appends a command's fact to the inbox of a run that exists and has not ended; once per key.
-- KEYS     1 run   2 inbox   3 commands of the run   4 blobs of the run   5… blobs of the command
-- ARGV     1 run id   2 kind   3 fact   4 key, or empty   5 hash of the request   then per blob: name, size
-- RETURNS  "SENT" | "REPEATED" | "TAKEN" | "NOBLOB" | "NOTFOUND" | the status of an ended run
-- CALLER   store/redis/pauses.rs, send
local call, K, A = redis.call, KEYS, ARGV
local status = call('HGET', K[1], 'status')
if not status then return 'NOTFOUND' end
local sha = A[4] ~= '' and call('HGET', K[3], A[4])
if sha then return sha == A[5] and 'REPEATED' or 'TAKEN' end
if status ~= 'scheduled' and status ~= 'running' and status ~= 'paused' then return status end
for i = 5, #K do
  if call('EXISTS', K[i]) == 0 then return 'NOBLOB' end
end
-- The first write, because a full Redis refuses it: all or nothing.
call('XADD', K[2], '*', 'kind', A[2], 'run', A[1], 'fact', A[3])
if A[4] ~= '' then call('HSET', K[3], A[4], A[5]) end
for i = 5, #K do
  local at = 6 + (i - 5) * 2
  call('PERSIST', K[i])
  call('HSET', K[4], A[at], A[at + 1])
end
return 'SENT'
