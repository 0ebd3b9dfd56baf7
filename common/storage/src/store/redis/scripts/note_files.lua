-- note_files: marks, before a run's file is written, that the run has files, so that its removal deletes them.
-- KEYS     1 run   2 runs with files
-- ARGV     1 run id
-- RETURNS  "NOTED" | "GONE"
-- CALLER   store/redis/jobs.rs, note_files
local call, K, A = redis.call, KEYS, ARGV
if call('EXISTS', K[1]) == 0 then return 'GONE' end
call('SADD', K[2], A[1])
return 'NOTED'
