-- claim_shard: claims a shard that is free, or already owned by this scheduler. Raises epoch and commit number, so
-- that work of the last owner becomes invalid. Begins with an UNLINK, which a full Redis allows: otherwise a full
-- Redis could never be swept.
-- KEYS     1 a key that never exists   2 owner   3 fence   4 inbox   5 trying
-- ARGV     1 scheduler id   2 lease, ms
-- RETURNS  {"HELD"} | {"TAKEN", epoch, commit, cursor, take-overs without progress, facts being tried…}
-- CALLER   store/redis/shards.rs, claim
local call, K, A = redis.call, KEYS, ARGV
local owner = call('GET', K[2])
if owner and owner ~= A[1] then return {'HELD'} end
call('UNLINK', K[1])
call('SET', K[2], A[1], 'PX', A[2])
local fence = call('HMGET', K[3], 'commit', 'cursor', 'claimed', 'takeovers')
local commit, cursor = tonumber(fence[1] or '0'), fence[2] or '0-0'
local takeovers = 1
if fence[1] and fence[3] == fence[1] then
  takeovers = tonumber(fence[4] or '0') + 1
else
  call('DEL', K[5])
end
-- Numbers start from the server's time, so that none is reused even after Redis has lost writes.
local time = call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
commit = string.format('%.0f', math.max(commit + 1, now))
local epoch = call('HINCRBY', K[3], 'epoch', 1)
call('HSET', K[3], 'holder', A[1], 'commit', commit, 'claimed', commit, 'takeovers', takeovers)
-- An inbox that was deleted or lost must not give out ids below the cursor again.
if cursor ~= '0-0' then
  if call('EXISTS', K[4]) == 0 then
    call('XADD', K[4], cursor, 'kind', 'continue', 'run', '', 'fact', '{}')
    call('XDEL', K[4], cursor)
  else
    local info, last = call('XINFO', 'STREAM', K[4]), nil
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then last = info[i + 1] end
    end
    local function parts(id) local a, b = string.match(id, '(%d+)-(%d+)'); return tonumber(a), tonumber(b) end
    local a, b = parts(last)
    local c, d = parts(cursor)
    if a < c or (a == c and b < d) then call('XSETID', K[4], cursor) end
  end
end
local trying = call('LRANGE', K[5], 0, -1)
return {'TAKEN', epoch, commit, cursor, takeovers, unpack(trying)}
