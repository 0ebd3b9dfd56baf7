-- complete_jobs: accepts results, each once: appends the fact, keeps its blobs, acknowledges and deletes the job; or
-- does nothing. A job that was given up also gets a dead letter.
-- KEYS     1 jobs stream   2 inbox   3 dead   then, for a result with blobs: blobs of its run, its blobs…
-- ARGV     1 group   2 consumer   3 lowest entry   4 highest entry   5 most entries the consumer can hold
--          6 most dead letters   then per result: entry, delivery number, run, kind, fact, number of blobs and
--          number of fields of its dead letter (one word, "" for neither), then per blob: name, size, then per
--          field: name, value
-- RETURNS  a word per result: "STORED" | "STALE" | "NOBLOB"
-- CALLER   store/redis/jobs.rs, complete
local call, K, A = redis.call, KEYS, ARGV
local own = {}
for _, e in ipairs(call('XPENDING', K[1], A[1], A[3], A[4], A[5], A[2])) do own[e[1]] = e[4] end
local words, done = {}, {}
local i, k, last = 7, 4, #A
while i <= last do
  -- Fast path: most results have neither blobs nor a dead letter.
  local blobs, fields = 0, 0
  if A[i + 5] ~= '' then
    blobs, fields = string.match(A[i + 5], '^(%d+) (%d+)$')
    blobs, fields = tonumber(blobs), tonumber(fields)
  end
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
      call('HSET', K[k], A[i + 4 + b * 2], A[i + 5 + b * 2])
    end
    if fields > 0 then
      local from = i + 6 + blobs * 2
      call('XADD', K[3], 'MAXLEN', '~', A[6], '*', unpack(A, from, from + fields * 2 - 1))
    end
    done[#done + 1] = A[i]
    own[A[i]] = nil
  end
  words[#words + 1] = word
  i = i + 6 + (blobs + fields) * 2
  if blobs > 0 then k = k + 1 + blobs end
end
for at = 1, #done, 500 do
  local to = math.min(at + 499, #done)
  call('XACK', K[1], A[1], unpack(done, at, to))
  call('XDEL', K[1], unpack(done, at, to))
end
return words
