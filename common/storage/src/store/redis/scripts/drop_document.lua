-- drop_document: removes a document from searches; a run that is indexing it will not publish it.
-- KEYS     1 documents   2 indexing   3 version   4 its segments   5 its vectors
-- ARGV     1 document   2 its generation, or empty   3 seconds for which it can still be read
-- RETURNS  "DROPPED" | "NONE" when it does not exist | "MOVED" when it has another generation now
-- CALLER   store/redis/knowledge.rs, forget_document
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
local current = known and cjson.decode(known)['generation'] or ''
if current ~= A[2] then return 'MOVED' end
local indexing = call('HDEL', K[2], A[1])
if not known then return indexing == 1 and 'DROPPED' or 'NONE' end
call('HDEL', K[1], A[1])
call('EXPIRE', K[4], A[3])
call('EXPIRE', K[5], A[3])
call('INCR', K[3])
return 'DROPPED'
