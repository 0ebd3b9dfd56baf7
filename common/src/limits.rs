//! Every bound in one place: name, unit, default, and how the default was chosen. Where a name stands in parentheses it
//! is a setting, and the error that the limit causes names it. The others pace the engine itself: nobody is refused
//! by them, what is over the bound only comes later.

/// Largest workflow file that is read, in bytes (`import_bytes_max`). Dify refuses more than 10 MB.
pub const IMPORT_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Deepest nesting of a workflow file, in levels (`document_depth_max`). Real exports need fifteen; everything behind
/// the reader may recurse within this bound.
pub const DOCUMENT_DEPTH_MAX: usize = 100;
/// Most values in a workflow file once its aliases are expanded (`document_values_max`). A graph of 10 000 nodes has
/// about 400 000.
pub const DOCUMENT_VALUES_MAX: usize = 2_000_000;
/// Most bytes of text in a workflow file once its aliases are expanded (`document_text_bytes_max`): twice the largest
/// file, so that honest use of aliases fits and an alias bomb does not.
pub const DOCUMENT_TEXT_BYTES_MAX: usize = 2 * IMPORT_BYTES_MAX;
/// Deepest nesting of iterations and loops, one within the other. Nobody draws five; the bound keeps the paths of frames
/// short and the walks from a node up to the root cheap.
pub const CONTAINER_DEPTH_MAX: usize = 16;
/// Most nodes inside one node (`children_max`). They run one after the other in one job, which somebody waits for.
pub const CHILDREN_MAX: usize = 16;
/// Most problems that are reported of one file; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 500;
/// Longest description of a variable, in characters. Dify's limit.
pub const DESCRIPTION_CHARS_MAX: usize = 255;
/// Largest value of an environment or conversation variable, in bytes (`MAX_VARIABLE_SIZE`). Dify's default.
pub const VARIABLE_BYTES_MAX: usize = 200 * 1024;
/// Longest output of a template, in characters (`TEMPLATE_TRANSFORM_MAX_LENGTH`). Dify's default.
pub const TEMPLATE_CHARS_MAX: usize = 400_000;
/// Most node starts in a run (`WORKFLOW_MAX_EXECUTION_STEPS`). Dify's default.
pub const STEPS_MAX: u64 = 500;
/// Longest time of a run, in seconds (`WORKFLOW_MAX_EXECUTION_TIME`). Dify's default.
pub const RUN_SECONDS_MAX: u64 = 1200;
/// Longest time that a form may wait, in seconds (`human_input_timeout_s`). Dify's default: seven days.
pub const HUMAN_INPUT_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Deepest nesting of workflows that call workflows (`call_depth_max`). Dify's default.
pub const CALL_DEPTH_MAX: u64 = 5;
/// Values whose JSON is longer than this many bytes are stored apart (`inline_bytes_max`, at most 32 KiB). A value is
/// written up to three times on its way (fact, state, event), while fetching a blob costs one more round trip.
pub const INLINE_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of inline values in one job; above it the largest travel as blobs (`job_bytes_max`).
pub const JOB_BYTES_MAX: usize = 256 * 1024;
/// Largest single value, in bytes of JSON (`value_bytes_max`). A larger one fails its node.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most node transitions in one step; what is left goes on by a `continue` fact, so that a wide graph does not hold up
/// the other runs of its shard.
pub const STEP_TRANSITIONS_MAX: usize = 256;
/// Most bytes of changes in one step, for the same reason.
pub const STEP_BYTES_MAX: usize = 256 * 1024;
/// Most jobs of one run that are queued or running; the rest wait as `ready` in its state.
pub const RUN_JOBS_MAX: u64 = 256;
/// Most frames of one container that are open at the same time, whatever its `parallel_nums`: more than a run may have
/// jobs would only wait.
pub const FRAMES_OPEN_MAX: u32 = 256;
/// Frames of one run beyond which an iteration opens no second one beside another: iterations within iterations would
/// multiply their windows.
pub const FRAMES_OF_RUN_MAX: usize = 1024;
/// Most items of an iteration, and most rounds of a loop (`container_rounds_max`). What a body does counts as steps; an
/// empty body does nothing, and would never meet another limit.
pub const CONTAINER_ROUNDS_MAX: u64 = 100_000;
/// Most messages of a list, those included that are not visible any more (`messages_max`).
pub const MESSAGES_MAX: u64 = 10_000;
/// Most bytes of a list of messages (`messages_bytes_max`): the scheduler that owns its run holds all of it in memory.
pub const MESSAGES_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most lists of messages of a run.
pub const LISTS_MAX: usize = 64;
/// Most bytes of `rt`, what a run keeps of its steps (`runtime_bytes_max`). A job that reads it carries it.
pub const RUNTIME_BYTES_MAX: u64 = 1024 * 1024;
/// Most records of a run's history (`history_records_max`): more than its steps.
pub const HISTORY_RECORDS_MAX: u64 = 10_000;
/// Largest record of a run's history, in bytes (`history_record_bytes_max`): a prompt of 1 MiB and its answer.
pub const HISTORY_RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Tokens of visible messages above which a list is said to be too long (`messages_tokens_limit`). The default of the
/// design that lists come from.
pub const MESSAGES_TOKENS_LIMIT: u64 = 4000;
/// Tokens of visible messages of which four fifths bring a warning (`messages_tokens_warning`). Likewise.
pub const MESSAGES_TOKENS_WARNING: u64 = 100_000;
/// Most facts in one commit; more gain nothing.
pub const COMMIT_FACTS_MAX: usize = 64;
/// Bytes of facts after which a commit takes no further one.
pub const COMMIT_BYTES_MAX: usize = 1024 * 1024;
/// Fuel of a Jinja template in the scheduler's step (about one unit an instruction); above it the node goes to a worker.
pub const PURE_FUEL: u64 = 50_000;
/// Bytes of output above which a pure node goes to a worker.
pub const PURE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// How long a shard's lease holds without renewal, in milliseconds (`shard_lease_ms`).
pub const SHARD_LEASE_MS: u64 = 5_000;
/// How often it is renewed, in milliseconds (`shard_renew_ms`).
pub const SHARD_RENEW_MS: u64 = 1_500;
/// How long a job may be held without a sign of life, in milliseconds (`job_lease_ms`).
pub const JOB_LEASE_MS: u64 = 10_000;
/// Longest wait for a worker to tell the hooks of a node whose end is known, of nodes without a `queue_timeout_ms` of their
/// own, in milliseconds. Then the end counts without them.
pub const LATE_HOOKS_WAIT_MS: u64 = 30_000;
/// How often a job may be handed out before it is given up (`deliveries_max`).
pub const DELIVERIES_MAX: u32 = 3;
/// Most entries in an inbox before new runs are refused (`inbox_max`).
pub const INBOX_MAX: u64 = 100_000;
/// Fewest characters of the admin key and of the key that seals secrets, unless `scheduler.allow_weak_keys`.
pub const KEY_CHARS_MIN: usize = 16;
/// Shards of a new namespace (`shards`). Few shards make large batches; more can be added.
pub const SHARDS: u16 = 2;
/// Bytes of workflow documents that a process keeps in memory; their graphs take a few times as much.
pub const WORKFLOWS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a workflow counts for at least, in bytes.
pub const WORKFLOW_BYTES_MIN: usize = 4096;
/// Bytes of run states that one scheduler keeps in memory (`run_cache_bytes`).
pub const RUN_CACHE_BYTES: usize = 256 * 1024 * 1024;
/// Most entries kept of a run's event stream (`run_events_max`); older ones are cut.
pub const RUN_EVENTS_MAX: usize = 100_000;
/// How long an ended run is kept, in seconds (`retention_seconds`): seven days.
pub const RETENTION_SECONDS: u64 = 7 * 24 * 3600;
/// How long an idempotency key is remembered, in seconds: a day.
pub const IDEMPOTENCY_SECONDS: u64 = 24 * 3600;
/// How long a blob lives that nobody has accepted, in seconds.
pub const BLOB_PENDING_SECONDS: u64 = 3600;
/// Time before a running job tells that it has started, in milliseconds; a shorter one tells with its end.
pub const STARTED_AFTER_MS: u64 = 20;
/// Longest time that chunks of a stream are gathered, in milliseconds.
pub const CHUNK_GATHER_MS: u64 = 20;
/// Most jobs that wait or run in one queue of a shard before new runs that use it are refused (`queue_max`): at 1 000
/// jobs a second, more than a minute and a half of work.
pub const QUEUE_MAX: u64 = 100_000;
/// How long a conversation is kept after its last write, in seconds (`conversation_retention_seconds`): thirty days.
pub const CONVERSATION_SECONDS: u64 = 30 * 24 * 3600;
/// Most turns of a conversation that are kept: twice what a run is told of them.
pub const CONVERSATION_TURNS_MAX: usize = 1000;
/// Largest inputs that are shown with a conversation, in bytes: lists of them are read whole.
pub const CONVERSATION_INPUTS_BYTES_MAX: usize = 8 * 1024;
/// Longest name of a conversation, in characters. Dify keeps it in a column of this width.
pub const CONVERSATION_NAME_CHARS_MAX: usize = 255;
/// Longest text that a user says of a message, in characters: a page.
pub const FEEDBACK_CHARS_MAX: usize = 4096;
/// Most turns that a run is told of its conversation: Dify reads no more messages than that.
pub const HISTORY_TURNS_MAX: usize = 500;
/// Ended runs younger than this are not removed for want of memory, in seconds: somebody may be about to read the result.
pub const EVICTION_AGE_SECONDS: u64 = 60;
/// A job that waits for a called run is told of its end, and looks for itself after this time in any case, in milliseconds.
pub const CALL_LOOK_MS: u64 = 300_000;
/// Combinations of provider, model and API key on `/metrics` (`scheduler.spending_series_max`).
pub const SPENDING_SERIES_MAX: usize = 500;
/// How long it is kept what a key has spent on a day, in seconds.
pub const KEY_DAYS_SECONDS: u64 = 92 * 24 * 3600;
/// Longest time that a model rests at a stretch, whatever its provider asks for, and longest wait for a turn at a model, in
/// milliseconds: then it is asked again.
pub const MODEL_REST_MAX_MS: u64 = 3_600_000;
/// How long a call that does not come back when it is due keeps its place in a model's queue, in milliseconds.
pub const MODEL_QUEUE_GRACE_MS: u64 = 60_000;
/// How long an unused bucket of a model's limits is kept, in seconds: longer than any rest and any wait.
pub const MODEL_BUCKET_SECONDS: u64 = 3 * 3600;
/// How often a call to a model with limits is refused by its provider before the node fails (`refusals_max`).
pub const MODEL_REFUSALS_MAX: u32 = 10;
/// Most entries of a kind (providers, profiles, library nodes …) that a namespace keeps: a worker reads all of them when one
/// has changed.
pub const CATALOG_ENTRIES_MAX: usize = 1000;
/// Largest entry that is kept, in bytes of JSON.
pub const CATALOG_ENTRY_BYTES_MAX: usize = 64 * 1024;
/// How old what a worker knows of the providers in Redis may be, in milliseconds (`providers_refresh_ms`): then the next
/// node that asks a model looks whether something has changed.
pub const PROVIDERS_REFRESH_MS: u64 = 1000;
/// How often a person is asked for what the input of a step lacks (`parameter_rounds_max`): who answers five times and
/// has still not given it needs something else than a form.
pub const PARAMETER_ROUNDS_MAX: u32 = 5;
/// Longest wait within a job (`job_wait_max_ms`), in milliseconds: what takes longer is waited for in Redis.
pub const JOB_WAIT_MS: u64 = 1000;
/// Largest result of a step that lies in the journal of its run itself, in bytes of JSON; a larger one is a blob of the run.
pub const STEP_INLINE_BYTES_MAX: usize = 1024 * 1024;
/// Longest text in a line of an agent's log, as events and metadata show it, in bytes; longer ones are cut, and whole only in
/// the node's output `json`. As large as a value that travels inline: a line is written with the fact, the state and the event.
pub const AGENT_LOG_TEXT_BYTES_MAX: usize = INLINE_BYTES_MAX;
/// Most that an event shows of a line of an agent's log, in bytes of texts.
pub const AGENT_LOG_LINE_BYTES_MAX: usize = 64 * 1024;
/// Most that the metadata of an agent has of its log, in bytes of texts.
pub const AGENT_LOG_BYTES_MAX: usize = 256 * 1024;
/// Most bytes that are kept of something given up on.
pub const DEAD_BYTES_MAX: usize = 16 * 1024;
/// Most entries of a dead-letter stream.
pub const DEAD_MAX: usize = 10_000;
/// Longest wait for a connection of an http-request, in seconds (`connect_seconds`). Dify's default.
pub const HTTP_CONNECT_SECONDS: u64 = 10;
/// Longest silence of the other side, in seconds (`read_seconds`). Dify's default.
pub const HTTP_READ_SECONDS: u64 = 600;
/// Longest wait until the next piece of a request is taken, in seconds (`write_seconds`). Dify's default.
pub const HTTP_WRITE_SECONDS: u64 = 600;
/// Largest answer that is a text, in bytes (`text_bytes_max`). Dify's default.
pub const HTTP_TEXT_BYTES_MAX: u64 = 1024 * 1024;
/// Largest answer that is a file, in bytes (`file_bytes_max`). Dify's default.
pub const HTTP_FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Most bytes of files that one request sends (`upload_bytes_max`): they are held in memory until the answer has begun,
/// since a redirect may want them once more.
pub const HTTP_UPLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest body of a request to a webhook, in bytes (`webhook_bytes_max`). Dify's default.
pub const WEBHOOK_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Most connections that a scheduler's API takes (`scheduler.connections_max`): thousands of clients that follow a run each;
/// an idle one takes some KiB of memory and a file.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Most connections to `scheduler.metrics_listen` (`scheduler.metrics_connections_max`), and to a worker
/// (`worker.connections_max`): some that scrape and probe.
pub const SIDE_CONNECTIONS_MAX: usize = 64;
/// Longest time for the head of a request, in milliseconds (`header_timeout_ms`): a head is one packet or two.
pub const HEADER_TIMEOUT_MS: u64 = 10_000;
/// Longest time of a connection between two requests, in seconds (`idle_seconds`): longer than the 60 to 90 that most
/// proxies and clients keep theirs, since the side that asks should be the one that closes.
pub const IDLE_SECONDS: u64 = 120;
/// Wrong keys from one address within a second that are answered as such (`scheduler.wrong_keys_max`): more than a person
/// or a client with an old key sends.
pub const WRONG_KEYS_MAX: usize = 16;
/// Addresses of which it is known how many wrong keys they sent within the last second; what is over this is forgotten,
/// oldest first. It bounds memory: about 300 bytes each.
pub const WRONG_KEY_ADDRESSES_MAX: usize = 8192;
/// Most missed times of a schedule that are caught up (`catch_up_max`): of one that fires each minute, a day.
pub const CATCH_UP_MAX: u64 = 1440;
/// Most redirects of one request (`redirects_max`). The default of Dify's client.
pub const HTTP_REDIRECTS_MAX: u32 = 20;
/// How long segments of a document that is not published yet are kept after the last was put, in seconds: longer than any
/// job is in hand or parked.
pub const KNOWLEDGE_PENDING_SECONDS: u64 = 7 * 24 * 3600;
/// How long segments of a document that was replaced or removed can still be read, in seconds: longer than a worker loads.
pub const KNOWLEDGE_REPLACED_SECONDS: u64 = 120;
/// Messages that wait for an MCP server that is a program and does not read: a call is one or two, so it is far behind then.
pub const MCP_LINES_WAITING_MAX: usize = 256;
/// Longest name or id of a dataset or a document, in bytes.
pub const KNOWLEDGE_NAME_BYTES_MAX: usize = 255;
/// Largest segment, in characters: more than any model of vectors takes.
pub const KNOWLEDGE_SEGMENT_CHARS_MAX: usize = 32_000;
/// Levels in which placeholders of a prompt may stand in each other (`prompt_levels_max` of the node).
pub const PROMPT_LEVELS_MAX: usize = 5;
/// Longest prompt of an `llm` node in its profile form, and of whatever a step asks a model, in bytes, its variables filled
/// in (`worker.prompt_bytes_max`).
pub const PROMPT_BYTES_MAX: usize = 1024 * 1024;
/// Most calls of tools that one reply may ask for (`max_tool_calls_per_request` of the node).
pub const TOOL_CALLS_MAX: u32 = 3;
