-- enter_conversation: makes a run the newest of a conversation, and creates the conversation if needed. May be
-- repeated.
-- KEYS     1 conversation   2 turns   3 ratings   4 the user's list by use   5 the user's list by begin
--          6 runs with unsettled turns   7… copies of large variables, messages
-- ARGV     1 run   2 app   3 user   4 now, ms   5 seconds that it is kept, 0 for ever   6 1 when it must exist   7 id
--          8 now, us   9 entries used before this time leave the lists, us   10 most open runs
--          11… field, value of a new conversation
-- RETURNS  {turn, previous run or empty, other runs with unsettled turns…}
--          {} when it does not exist, or is of another app or user
-- CALLER   store/redis/conversations.rs, enter
local call, K, A = redis.call, KEYS, ARGV
local known = call('HMGET', K[1], 'app', 'user', 'last', 'before', 'dialogue', 'created_at', 'open')
-- Runs whose turns are not stored yet, oldest first. A conversation of an older release does not name them.
local open = {}
for run in string.gmatch(known[7] or '', '%S+') do
  if run ~= A[1] then open[#open + 1] = run end
end
local function answer(turn, previous)
  local all = {turn, previous}
  for _, run in ipairs(open) do
    if run ~= previous and call('SISMEMBER', K[6], run) == 1 then all[#all + 1] = run end
  end
  return all
end
if known[3] == A[1] then return answer(known[5], known[4] or '') end
if known[3] then
  if known[1] ~= A[2] or known[2] ~= A[3] then return {} end
elseif A[6] == '1' then
  return {}
else
  call('HSET', K[1], 'app', A[2], 'user', A[3], 'created_at', A[4], unpack(A, 11))
end
call('HSET', K[1], 'last', A[1], 'before', known[3] or '', 'updated_at', A[4])
local surplus = math.max(#open + 1 - tonumber(A[10]), 0)
local kept = {unpack(open, surplus + 1)}
kept[#kept + 1] = A[1]
call('HSET', K[1], 'open', table.concat(kept, ' '))
local turn = call('HINCRBY', K[1], 'dialogue', 1)
local function keep(from, to, seconds)
  for i = from, to do
    if seconds == 0 then call('PERSIST', K[i]) else call('EXPIRE', K[i], seconds) end
  end
end
keep(1, 3, tonumber(A[5]))
keep(7, #K, tonumber(A[5]))
if A[2] ~= '' then
  local begun = known[3] and (known[6] .. '000') or A[8]
  call('ZADD', K[4], A[8], A[7])
  call('ZADD', K[5], 'NX', begun, A[7])
  if A[5] ~= '0' then
    for _, old in ipairs(call('ZRANGEBYSCORE', K[4], '-inf', '(' .. A[9], 'LIMIT', 0, 10)) do
      call('ZREM', K[4], old)
      call('ZREM', K[5], old)
    end
  end
  keep(4, 5, 2 * tonumber(A[5]))
end
return answer(tostring(turn), known[3] or '')
