-- queue_state: counts the jobs of a queue that wait and that are held, and finds the places of some jobs. Changes nothing.
-- A job that was returned has been idle since 1970; it waits. Counts at most so many jobs before a job.
-- KEYS     1 jobs stream
-- ARGV     1 group   2 most jobs to count   3… entries, in ascending order
-- RETURNS  {waiting, held, time of the oldest waiting job, then per entry: number of older jobs that wait; 'waits', 'gone' or
--          'held <consumer>'; its time}; times are in µs as text, empty when unknown
-- CALLER   store/redis/fleet.rs, queue_state
local call, stream, group, most = redis.call, KEYS[1], ARGV[1], tonumber(ARGV[2])
local length = call('XLEN', stream)
local last, pending = '0-0', 0
for _, info in ipairs(length > 0 and call('XINFO', 'GROUPS', stream) or {}) do
  local g = {}
  for i = 1, #info, 2 do g[info[i]] = info[i + 1] end
  if g.name == group then last, pending = g['last-delivered-id'], g.pending end
end
local back, is_back = {}, {}
if pending > 0 then
  back = call('XPENDING', stream, group, 'IDLE', '1000000000000', '-', '+', most)
  for _, entry in ipairs(back) do is_back[entry[1]] = true end
end
local first = call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)
if back[1] then first = call('XRANGE', stream, back[1][1], back[1][1]) end

-- The time at which the first of these jobs was queued, or ''.
local function queued(jobs)
  local fields = jobs[1] and jobs[1][2] or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'job' then return fields[i + 1]:match('"queued":(%d+)') or '' end
  end
  return ''
end
local answer = {math.max(0, length - pending + #back), math.max(0, pending - #back), queued(first)}

-- Whether one entry id is lower than another.
local function before(a, b)
  local am, as = a:match('(%d+)-(%d+)')
  local bm, bs = b:match('(%d+)-(%d+)')
  if am ~= bm then return tonumber(am) < tonumber(bm) end
  return tonumber(as) < tonumber(bs)
end
local from, counted = last, 0
for i = 3, #ARGV do
  local id, rank, word = ARGV[i], 0, 'gone'
  for _, entry in ipairs(back) do if before(entry[1], id) then rank = rank + 1 end end
  local is_new = before(last, id)
  while is_new and counted < most do
    local some = call('XRANGE', stream, '(' .. from, '(' .. id, 'COUNT', math.min(100, most - counted))
    if #some == 0 then break end
    counted, from = counted + #some, some[#some][1]
  end
  local job = call('XRANGE', stream, id, id)
  if #job == 1 then
    if is_new or is_back[id] then
      word = 'waits'
    else
      local held = call('XPENDING', stream, group, id, id, 1)
      if held[1] then word = 'held ' .. held[1][2] end
    end
  end
  answer[#answer + 1] = math.min(rank + counted, most)
  answer[#answer + 1] = word
  answer[#answer + 1] = queued(job)
end
return answer
