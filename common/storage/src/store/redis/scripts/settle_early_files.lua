-- settle_early_files: settles the note of files that were stored before their run. If the run does not exist, its files are
-- to be deleted.
-- KEYS     1 run   2 runs with early files   3 removed runs with files to delete
-- ARGV     1 run id   2 time, ms: a note after it stays
-- RETURNS  "SETTLED" | "LATER"
-- CALLER   store/redis/uploads.rs, settle_early
local call, K, A = redis.call, KEYS, ARGV
local noted = call('ZSCORE', K[2], A[1])
if not noted or tonumber(noted) > tonumber(A[2]) then return 'LATER' end
if call('EXISTS', K[1]) == 0 then call('SADD', K[3], A[1]) end
call('ZREM', K[2], A[1])
return 'SETTLED'
