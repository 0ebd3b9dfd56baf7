-- answer_pause: stores the first answer to a pause that is pending and in time, and appends its fact to the inbox; or
-- does nothing. The first write is one that a full Redis refuses.
-- KEYS     1 run   2 inbox   3 pauses
-- ARGV     1 run id   2 pause id   3 field of its answer   4 key of the answer, or empty   5 record   6 kind   7 fact
-- RETURNS  "ACCEPTED" | "REPEATED" | "ANSWERED" | "EXPIRED" | "CANCELLED" | "NOTFOUND" | the status of an ended run
-- CALLER   store/redis/pauses.rs, answer
local call, K, A = redis.call, KEYS, ARGV
local status = call('HGET', K[1], 'status')
local asked = call('HGET', K[3], A[2])
if not status or not asked then return 'NOTFOUND' end
asked = cjson.decode(asked)
local earlier = call('HGET', K[3], A[3])
if earlier then
  earlier = cjson.decode(earlier)
  if A[4] ~= '' and earlier.key == A[4] then return 'REPEATED' end
  return earlier.cancel == true and 'CANCELLED' or 'ANSWERED'
end
local words = { answered = 'ANSWERED', expired = 'EXPIRED', cancelled = 'CANCELLED' }
if words[asked.status] then return words[asked.status] end
if status ~= 'scheduled' and status ~= 'running' and status ~= 'paused' then return status end
if type(asked.expires_at) == 'string' then
  local time = call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  if tonumber(asked.expires_at) <= now then return 'EXPIRED' end
end
call('HSETNX', K[3], A[3], A[5])
call('XADD', K[2], '*', 'kind', A[6], 'run', A[1], 'fact', A[7])
return 'ACCEPTED'
