-- take_over: gives this consumer the jobs without a heartbeat for too long; acknowledges entries that are gone.
-- KEYS     1 a key that never exists   2 jobs stream
-- ARGV     1 group   2 consumer   3 idle, ms   4 position to continue from   5 count
-- RETURNS  {next position, then per job: {entry, delivery number, fields}}
-- CALLER   store/redis/jobs.rs, take_over
local call, A = redis.call, ARGV
call('UNLINK', KEYS[1])
local got = call('XAUTOCLAIM', KEYS[2], A[1], A[2], A[3], A[4], 'COUNT', A[5])
local jobs = {got[1]}
for _, entry in ipairs(got[2]) do
  if entry and entry[1] and entry[2] then
    local held = call('XPENDING', KEYS[2], A[1], entry[1], entry[1], 1, A[2])
    if #held == 1 then jobs[#jobs + 1] = {entry[1], held[1][4], entry[2]} end
  elseif entry and entry[1] then
    call('XACK', KEYS[2], A[1], entry[1])
  end
end
return jobs
