-- begin_step: what the journal knows of a step of a job; where there is no result, marks that a try of it begins.
-- KEYS     1 jobs stream   2 journal of the run
-- ARGV     1 group   2 consumer   3 entry   4 delivery number   5 field of the result   6 field of the mark, without
--          its number   7 which attempt of the node it is   8 "next" to begin another try,
--          "park" to note that the one under way does nothing but wait   9 now, µs
-- RETURNS  {"STALE"} | {"KNOWN", result} | {"BEGIN", number of the try, "1" when this try was begun before, "2" when it was put down then}
-- CALLER   store/redis/journal.rs, begin_step
local call, K, A = redis.call, KEYS, ARGV
local held = call('XPENDING', K[1], A[1], A[3], A[3], 1, A[2])[1]
if not held or held[4] ~= tonumber(A[4]) then return {'STALE'} end
local known = call('HGET', K[2], A[5])
if known then return {'KNOWN', known} end
local try, mark = 0, false
repeat
  local later = call('HGET', K[2], A[6] .. (try + 1))
  if later then try, mark = try + 1, later end
until not later
-- A try that an earlier attempt of the node made has ended, or nobody would have made this attempt.
local again = mark and A[8] ~= 'next' and string.match(mark, '^%d+') == A[7]
if A[8] == 'park' then
  if again then call('HSET', K[2], A[6] .. try, A[7] .. ' ' .. A[9] .. ' parked') end
  return {'BEGIN', tostring(try), '0'}
end
if not again then try = try + 1 end
call('HSET', K[2], A[6] .. try, A[7] .. ' ' .. A[9])
-- As long as its run; one of an older version had an end of its own.
call('PERSIST', K[2])
local parked = mark and string.find(mark, ' parked', 1, true)
return {'BEGIN', tostring(try), again and (parked and '2' or '1') or '0'}
