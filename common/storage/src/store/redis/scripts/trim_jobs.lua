-- trim_jobs: deletes the entries of a jobs stream below everything that waits or is held. They were acknowledged but
-- not deleted, by an operator or by a Redis that lost a write; no worker would ever read them. Completed entries are
-- deleted at once, and Redis frees a node of a stream with its last entry, so nothing else needs trimming.
-- KEYS     1 a key that never exists   2 jobs stream
-- ARGV     1 group
-- RETURNS  the number of deleted entries
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
-- Nothing is held, so all delivered entries are finished. The last one stays, to mark the stream's position.
return call('XTRIM', K[2], 'MINID', pending[1] > 0 and pending[2] or read)
