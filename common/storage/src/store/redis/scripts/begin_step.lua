-- begin_step: reads a journal entry of a job; without a result, marks that a try begins.
-- KEYS     1 jobs stream   2 journal of the run
-- ARGV     1 group   2 consumer   3 entry   4 delivery number   5 field of the result   6 field of the mark, without
--          the number of the try   7 attempt of the node   8 "next" to begin another try,
--          "park" to mark that the try in progress only waits   9 now, µs
-- RETURNS  {"STALE"} | {"KNOWN", result, "1" when a try was begun twice}
--          | {"BEGIN", number of the try, "1" when this try was begun before, "2" when it was parked then}
-- CALLER   store/redis/journal.rs, begin_step
local call, K, A = redis.call, KEYS, ARGV
local held = call('XPENDING', K[1], A[1], A[3], A[3], 1, A[2])[1]
if not held or held[4] ~= tonumber(A[4]) then return {'STALE'} end
local known = call('HGET', K[2], A[5])
local try, mark, twice = 0, false, false
repeat
  local later = call('HGET', K[2], A[6] .. (try + 1))
  if later then
    try, mark = try + 1, later
    twice = twice or string.find(later, ' twice', 1, true)
  end
until not later
if known then return {'KNOWN', known, twice and '1' or '0'} end
-- A try of an earlier attempt has ended; otherwise this attempt would not exist.
local again = mark and A[8] ~= 'next' and string.match(mark, '^%d+') == A[7]
-- The mark of a doubled try stays, whichever worker continues it.
local doubled = again and string.find(mark, ' twice', 1, true)
local text = A[7] .. ' ' .. A[9]
if A[8] == 'park' then
  if again then call('HSET', K[2], A[6] .. try, text .. ' parked' .. (doubled and ' twice' or '')) end
  return {'BEGIN', tostring(try), '0'}
end
doubled = doubled or again and not string.find(mark, ' parked', 1, true)
if not again then try = try + 1 end
call('HSET', K[2], A[6] .. try, text .. (doubled and ' twice' or ''))
-- Lives as long as the run. A journal written by an older version has its own expiry.
call('PERSIST', K[2])
return {'BEGIN', tostring(try), again and (doubled and '1' or '2') or '0'}
