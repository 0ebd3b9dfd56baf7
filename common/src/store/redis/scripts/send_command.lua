-- send_command: a command's fact into the inbox of a run that is there and not over.
-- KEYS     1 run   2 inbox
-- ARGV     1 run id   2 kind   3 fact
-- RETURNS  "SENT" | "NOTFOUND" | the status of a run that is over
-- CALLER   store/redis/runs.rs, send_command
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 'NOTFOUND' end
if status ~= 'scheduled' and status ~= 'running' and status ~= 'paused' then return status end
redis.call('XADD', KEYS[2], '*', 'kind', ARGV[2], 'run', ARGV[1], 'fact', ARGV[3])
return 'SENT'
