-- heartbeat: renews the jobs that this consumer still holds, and returns the others.
-- KEYS     1 a key that never exists   2 jobs stream
-- ARGV     1 group   2 consumer   3… entries
-- RETURNS  the entries that it no longer holds
-- CALLER   store/redis/jobs.rs, heartbeat
local call = redis.call
call('UNLINK', KEYS[1])
local lost = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local held = call('XPENDING', KEYS[2], ARGV[1], id, id, 1, ARGV[2])
  -- A deleted entry stays pending, but there is no job to hold.
  if #held == 1 and #call('XRANGE', KEYS[2], id, id) == 1 then
    call('XCLAIM', KEYS[2], ARGV[1], ARGV[2], 0, id, 'JUSTID')
  else
    lost[#lost + 1] = id
  end
end
return lost
