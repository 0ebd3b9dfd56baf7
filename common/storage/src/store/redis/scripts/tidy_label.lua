-- tidy_label: takes removed runs off the list of a label, and the label off the list of labels if it has no runs.
-- KEYS     1 all labels   2 runs of the label
-- ARGV     1 id of the label   2… ids of removed runs
-- RETURNS  "EMPTY" | "LEFT" when the label has runs
-- CALLER   store/redis/runs_of_label.rs, tidy_some_labels
local call, K, A = redis.call, KEYS, ARGV
if #A >= 2 then call('ZREM', K[2], unpack(A, 2)) end
if call('EXISTS', K[2]) == 1 then return 'LEFT' end
call('ZREM', K[1], A[1])
return 'EMPTY'
