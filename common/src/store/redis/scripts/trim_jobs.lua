-- trim_jobs: cuts a jobs stream below everything that waits or is held. What lies there was acknowledged and not deleted,
-- by hand or by a Redis that lost a write; nobody would ever read it again. Entries that are handed in are deleted at
-- once, and Redis frees a node of a stream with its last entry, so that there is nothing else to do.
-- KEYS     1 a key that is never there   2 jobs stream
-- ARGV     1 group
-- RETURNS  how many were cut off
-- CALLER   store/redis/shards.rs, trim_jobs
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[1])
if call('EXISTS', K[2]) == 0 then return 0 end
local read
for _, info in ipairs(call('XINFO', 'GROUPS', K[2])) do
  local group = {}
  for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
  if group.name == A[1] then read = group['last-delivered-id'] end
end
if not read then return 0 end
local pending = call('XPENDING', K[2], A[1])
-- Nothing held: whatever was handed out is done with. The last one stays, to say where the stream is.
return call('XTRIM', K[2], 'MINID', pending[1] > 0 and pending[2] or read)
