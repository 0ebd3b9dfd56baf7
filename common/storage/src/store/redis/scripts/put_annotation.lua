-- put_annotation: adds an annotation, or changes an existing one; the question's key leads to it.
-- KEYS     1 records   2 order   3 questions: key of a question -> ids, the newest last, each after a space
-- ARGV     1 id   2 record, JSON   3 key of its question   4 its creation (us), empty for an existing one
--          5 most annotations
-- RETURNS  "KEPT" | "FULL" | "NONE" when there is no such annotation to change
-- CALLER   store/redis/annotations.rs, put_annotation
local call, K, A = redis.call, KEYS, ARGV
local known = call('HGET', K[1], A[1])
if A[4] == '' and not known then return 'NONE' end
if A[4] ~= '' and not known and call('ZCARD', K[2]) >= tonumber(A[5]) then return 'FULL' end
local before = known and cjson.decode(known)['key']
if before ~= A[3] then
  if before then
    local rest = ''
    for id in string.gmatch(call('HGET', K[3], before) or '', '%S+') do
      if id ~= A[1] then rest = rest .. ' ' .. id end
    end
    if rest == '' then call('HDEL', K[3], before) else call('HSET', K[3], before, rest) end
  end
  call('HSET', K[3], A[3], (call('HGET', K[3], A[3]) or '') .. ' ' .. A[1])
end
call('HSET', K[1], A[1], A[2])
if A[4] ~= '' then call('ZADD', K[2], 'NX', A[4], A[1]) end
return 'KEPT'
