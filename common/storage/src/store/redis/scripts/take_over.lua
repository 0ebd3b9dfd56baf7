-- take_over: gives this consumer jobs of consumers without a sign of life, and notes what is known of suspects. A job
-- is left out if another consumer has it by now. Acknowledges entries that are gone.
-- KEYS     1 a key that never exists   2 jobs stream   3 records of suspects
-- ARGV     1 group   2 consumer   3 idle, ms   4 life of the records, ms   then per job: entry, its consumer, its
--          delivery number, the new delivery number ("0" only notes), its record ("" removes it, "=" leaves it)
-- RETURNS  per job that was taken: {entry, delivery number, fields}
-- CALLER   store/redis/suspects.rs, take_over
local call, K, A = redis.call, KEYS, ARGV
call('UNLINK', K[1])
local jobs, noted = {}, false
for i = 5, #A, 5 do
  local id, number, record = A[i], A[i + 3], A[i + 4]
  local held = call('XPENDING', K[2], A[1], id, id, 1, A[i + 1])
  if #held == 1 and held[1][4] == tonumber(A[i + 2]) then
    local is_left = number == '0'
    if not is_left then
      local got = call('XCLAIM', K[2], A[1], A[2], A[3], id, 'RETRYCOUNT', number)
      local entry = got[1]
      if entry and entry[1] and entry[2] then
        jobs[#jobs + 1] = {id, tonumber(number), entry[2]}
        is_left = true
      elseif #call('XRANGE', K[2], id, id) == 0 then
        call('XACK', K[2], A[1], id)
        record = record == '=' and '=' or ''
        is_left = true
      end
    end
    if is_left and record == '' then
      call('HDEL', K[3], id)
    elseif is_left and record ~= '=' then
      call('HSET', K[3], id, record)
      noted = true
    end
  end
end
if noted then call('PEXPIRE', K[3], A[4]) end
return jobs
