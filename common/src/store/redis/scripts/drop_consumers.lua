-- drop_consumers: forgets consumers that hold nothing: this one, and such as were silent for long. Never one that
-- holds jobs, since they would be thrown away with it.
-- KEYS     1 a key that is never there   2 jobs stream
-- ARGV     1 group   2 consumer   3 silent for, ms
-- RETURNS  how many were forgotten
-- CALLER   store/redis/jobs.rs, drop_consumers
local call = redis.call
call('UNLINK', KEYS[1])
if call('EXISTS', KEYS[2]) == 0 then return 0 end
local dropped = 0
for _, info in ipairs(call('XINFO', 'CONSUMERS', KEYS[2], ARGV[1])) do
  local c = {}
  for i = 1, #info, 2 do c[info[i]] = info[i + 1] end
  if c.pending == 0 and (c.name == ARGV[2] or c.idle >= tonumber(ARGV[3])) then
    call('XGROUP', 'DELCONSUMER', KEYS[2], ARGV[1], c.name)
    dropped = dropped + 1
  end
end
return dropped
