-- lost_jobs: finds jobs that no worker will ever run: their entry is gone, or it was delivered and no consumer holds
-- it (its consumer was deleted).
-- KEYS     1 jobs stream
-- ARGV     1 group   2… entries
-- RETURNS  the lost entries
-- CALLER   store/redis/shards.rs, lost_jobs
local call, K, A = redis.call, KEYS, ARGV
local function parts(id) local a, b = string.match(id, '(%d+)-(%d+)'); return tonumber(a), tonumber(b) end
local a, b
if call('EXISTS', K[1]) == 1 then
  for _, info in ipairs(call('XINFO', 'GROUPS', K[1])) do
    local group = {}
    for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
    if group.name == A[1] then a, b = parts(group['last-delivered-id']) end
  end
end
local lost = {}
for i = 2, #A do
  local c, d = parts(A[i])
  local handed_out = a and (c < a or (c == a and d <= b))
  local held = handed_out and #call('XPENDING', K[1], A[1], A[i], A[i], 1) == 1
  if #call('XRANGE', K[1], A[i], A[i]) == 0 or (handed_out and not held) then lost[#lost + 1] = A[i] end
end
return lost
