-- replace_document: stores a changed record of a document, if nothing has changed it since it was read. The version grows,
--                   so that workers read the record again.
-- KEYS     1 documents   2 version
-- ARGV     1 document   2 its generation   3 its new revision   4 record, JSON
-- RETURNS  "REPLACED" | "MOVED" when it has another generation or revision now, or was removed
-- CALLER   store/redis/knowledge.rs, replace_document
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
if not known then return 'MOVED' end
local record = cjson.decode(known)
if record['generation'] ~= A[2] or (record['revision'] or 0) + 1 ~= tonumber(A[3]) then return 'MOVED' end
call('HSET', K[1], A[1], A[4])
call('INCR', K[2])
return 'REPLACED'
