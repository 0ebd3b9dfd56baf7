-- hand_back: returns jobs at once without counting the delivery. The next worker takes them without waiting. The lift
-- raises the delivery number, so that the two holders are never confused. Publishes a hint for all workers.
-- KEYS     1 a key that never exists   2 jobs stream   3 channel of hints
-- ARGV     1 group   2 consumer   3 lift   then per job: entry, delivery number
-- RETURNS  the number of returned jobs
-- CALLER   store/redis/jobs.rs, hand_back
local call = redis.call
call('UNLINK', KEYS[1])
local given = 0
for i = 4, #ARGV, 2 do
  local id, number = ARGV[i], tonumber(ARGV[i + 1])
  local held = call('XPENDING', KEYS[2], ARGV[1], id, id, 1, ARGV[2])
  -- A job that was returned already has been idle since 1970.
  if #held == 1 and held[1][4] == number and held[1][3] < 1e12 then
    call('XCLAIM', KEYS[2], ARGV[1], ARGV[2], 0, id, 'TIME', 0, 'RETRYCOUNT', number + ARGV[3] - 1, 'JUSTID')
    given = given + 1
  end
end
if given > 0 then call('PUBLISH', KEYS[3], 'handed-back') end
return given
