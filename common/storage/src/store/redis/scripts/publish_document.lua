-- publish_document: makes a version of a document searchable and replaces the previous one.
-- KEYS     1 documents   2 indexing   3 version   4 its segments   5 its vectors
--          6 segments and 7 vectors of the previous
-- ARGV     1 document   2 run   3 generation   4 previous generation, or empty   5 record, JSON
--          6 seconds for which the previous version can still be read
-- RETURNS  "PUBLISHED" | "BEFORE" | "OTHER" when another run is newer, or the document was removed | "MOVED" when the
--          previous generation is another now | "GONE" when its segments are missing
-- CALLER   store/redis/knowledge.rs, publish
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
local current = known and cjson.decode(known)['generation'] or ''
if current == A[3] then return 'BEFORE' end
local indexing = call('HGET', K[2], A[1])
if not indexing or cjson.decode(indexing)['run'] ~= A[2] then return 'OTHER' end
if current ~= A[4] then return 'MOVED' end
if call('EXISTS', K[4]) == 0 then return 'GONE' end
call('HSET', K[1], A[1], A[5])
call('HDEL', K[2], A[1])
call('PERSIST', K[4])
call('PERSIST', K[5])
if current ~= '' then
  call('EXPIRE', K[6], A[6])
  call('EXPIRE', K[7], A[6])
end
call('INCR', K[3])
return 'PUBLISHED'
