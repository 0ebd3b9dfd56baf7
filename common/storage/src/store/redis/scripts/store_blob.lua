-- store_blob: stores a piece of a large value that nothing has accepted yet. A value never changes under its name, so
-- this may come twice, or late: bytes that are there stay, and so does the life of a value that is kept.
-- KEYS     1 blob
-- ARGV     1 position of the piece in bytes   2 piece   3 time to live in seconds, until it is accepted
-- RETURNS  "KEPT" | the number of bytes from the beginning on that are there now
-- CALLER   store/redis/blobs.rs, store
local call, K, A = redis.call, KEYS, ARGV
local position, pending = tonumber(A[1]), tonumber(A[3])
local left = call('PTTL', K[1])
if left == -1 or left > pending * 1000 then return 'KEPT' end
local length = call('STRLEN', K[1])
-- Another server that took over in between may lack the beginning.
if position > length then return tostring(length) end
local stored = call('SETRANGE', K[1], position, A[2])
call('EXPIRE', K[1], pending)
return tostring(stored)
