-- note_audit: adds an entry to the audit log, and removes entries that are too many or too old.
-- KEYS     1 the log
-- ARGV     1 the entry   2 most entries   3 how long entries are kept, ms, or 0 for no limit
-- RETURNS  "NOTED"
-- CALLER   store/redis/audit.rs, note_audit
local call, K, A = redis.call, KEYS, ARGV
call('XADD', K[1], 'MAXLEN', '=', A[2], '*', 'entry', A[1])
local age = tonumber(A[3])
if age > 0 then
  local time = call('TIME')
  local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - age
  call('XTRIM', K[1], 'MINID', '=', string.format('%.0f', math.max(oldest, 0)))
end
return 'NOTED'
