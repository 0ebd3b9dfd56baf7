-- note_indexing: stores the progress of indexing a document, if its run is the newest for the document.
-- KEYS     1 indexing of the dataset
-- ARGV     1 document   2 run   3 record, JSON
-- RETURNS  "NOTED" | "OTHER" when another run is newer, or the document was removed
-- CALLER   store/redis/knowledge.rs, note_progress
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
if not known or cjson.decode(known)['run'] ~= A[2] then return 'OTHER' end
call('HSET', K[1], A[1], A[3])
return 'NOTED'
