-- complete_jobs: hands in results, each once: fact in, its blobs kept, job acknowledged and deleted; or not at all. What
-- was given up on is kept for people with it.
-- KEYS     1 jobs stream   2 inbox   3 dead   then a result each: blobs of its run, its blobs…
-- ARGV     1 group   2 consumer   3 lowest entry   4 highest entry   5 most entries the consumer can hold
--          6 most dead letters   then a result each: entry, delivery number, run, kind, fact, number of blobs, number
--          of fields of its dead letter, then a blob each: name, size, then a field each: name, value
-- RETURNS  a word a result: "STORED" | "STALE" | "NOBLOB"
-- CALLER   store/redis/jobs.rs, complete
local call, K, A = redis.call, KEYS, ARGV
local own = {}
for _, e in ipairs(call('XPENDING', K[1], A[1], A[3], A[4], A[5], A[2])) do own[e[1]] = e[4] end
local words, done = {}, {}
local i, k = 7, 4
while i <= #A do
  local blobs, fields = tonumber(A[i + 5]), tonumber(A[i + 6])
  local word = 'STALE'
  if own[A[i]] == tonumber(A[i + 1]) then
    word = 'STORED'
    for b = 1, blobs do
      if call('EXISTS', K[k + b]) == 0 then word = 'NOBLOB' end
    end
  end
  if word == 'STORED' then
    call('XADD', K[2], '*', 'kind', A[i + 3], 'run', A[i + 2], 'fact', A[i + 4])
    for b = 1, blobs do
      call('PERSIST', K[k + b])
      call('HSET', K[k], A[i + 5 + b * 2], A[i + 6 + b * 2])
    end
    if fields > 0 then
      local from = i + 7 + blobs * 2
      call('XADD', K[3], 'MAXLEN', '~', A[6], '*', unpack(A, from, from + fields * 2 - 1))
    end
    done[#done + 1] = A[i]
    own[A[i]] = nil
  end
  words[#words + 1] = word
  i, k = i + 7 + (blobs + fields) * 2, k + 1 + blobs
end
for at = 1, #done, 500 do
  local to = math.min(at + 499, #done)
  call('XACK', K[1], A[1], unpack(done, at, to))
  call('XDEL', K[1], unpack(done, at, to))
end
return words
