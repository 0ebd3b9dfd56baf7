-- settle_turn: adds the turn of an ended run to its conversation, once. When the conversation is gone, also deletes
-- what its last runs have written. A conversation of another app or user with the same id is not touched.
-- KEYS     1 runs with unsettled turns   2 conversation   3 turns   4 ratings   5 the user's list by use
--          6 the user's list by begin   7… copies of large variables, messages
-- ARGV     1 run   2 turn, JSON   3 most turns   4 seconds that they are kept, 0 for ever   5 app   6 id   7 user
-- RETURNS  "SETTLED" | "BEFORE" when it was settled already | "GONE" when the conversation is gone
-- CALLER   store/redis/conversations.rs, settle
local call, K, A = redis.call, KEYS, ARGV
if call('SREM', K[1], A[1]) == 0 then return 'BEFORE' end
local known = call('HMGET', K[2], 'last', 'created_at', 'updated_at', 'app', 'user', 'open')
if not known[1] then
  call('UNLINK', unpack(K, 2, 4))
  for i = 7, #K do call('UNLINK', K[i]) end
  return 'GONE'
end
if known[4] ~= A[5] or known[5] ~= A[7] then return 'GONE' end
local open = {}
for run in string.gmatch(known[6] or '', '%S+') do
  if run ~= A[1] then open[#open + 1] = run end
end
if known[6] then call('HSET', K[2], 'open', table.concat(open, ' ')) end
local surplus = call('RPUSH', K[3], A[2]) - tonumber(A[3])
for _ = 1, surplus do
  local is_read, turn = pcall(cjson.decode, call('LPOP', K[3]))
  if is_read and turn.id then call('HDEL', K[4], turn.id) end
end
local function keep(from, to, seconds)
  for i = from, to do
    if seconds == 0 then call('PERSIST', K[i]) else call('EXPIRE', K[i], seconds) end
  end
end
keep(2, 4, tonumber(A[4]))
keep(7, #K, tonumber(A[4]))
if A[5] ~= '' then
  -- The lists may have dropped a conversation whose run took long.
  call('ZADD', K[5], 'NX', known[3] .. '000', A[6])
  call('ZADD', K[6], 'NX', known[2] .. '000', A[6])
  keep(5, 6, 2 * tonumber(A[4]))
end
return 'SETTLED'
