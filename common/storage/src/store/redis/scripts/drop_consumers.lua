-- drop_consumers: deletes consumers that hold no job: this one, and those that were idle for long. A consumer with
-- jobs is never deleted, because Redis would drop its pending entries.
-- KEYS     1 a key that never exists   2 jobs stream
-- ARGV     1 group   2 consumer   3 longest idle time, ms
-- RETURNS  the number of deleted consumers
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
