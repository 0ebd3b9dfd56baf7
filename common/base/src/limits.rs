//! Every limit in one place: its unit, its default and the reason for the default.
//!
//! A name in parentheses is a setting; the error that the limit causes names it. Most limits
//! without a name only pace the engine: they delay work and do not refuse it.

/// Largest workflow file that is read, in bytes (`import_bytes_max`). Dify refuses more than 10 MB.
pub const IMPORT_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Deepest nesting of a workflow file, in levels (`document_depth_max`). Real exports need fifteen. Code that
/// runs after the reader may recurse within this limit.
pub const DOCUMENT_DEPTH_MAX: usize = 100;
/// Most values in a workflow file once its aliases are expanded (`document_values_max`). A graph of 10 000 nodes has
/// about 400 000.
pub const DOCUMENT_VALUES_MAX: usize = 2_000_000;
/// Most bytes of text in a workflow file once its aliases are expanded (`document_text_bytes_max`): twice the
/// largest file. Honest use of aliases fits, an alias bomb does not.
pub const DOCUMENT_TEXT_BYTES_MAX: usize = 2 * IMPORT_BYTES_MAX;
/// Deepest nesting of iterations and loops. Real workflows stay below five; the limit keeps frame paths short
/// and walks from a node to the root cheap.
pub const CONTAINER_DEPTH_MAX: usize = 16;
/// Most nodes inside one node (`children_max`). They run one after the other in one job, while a client
/// waits.
pub const CHILDREN_MAX: usize = 16;
/// Most problems that are listed for one file; the rest is only counted.
pub const DIAGNOSTICS_MAX: usize = 500;
/// Longest description of a variable, in characters. Dify's limit.
pub const DESCRIPTION_CHARS_MAX: usize = 255;
/// Largest value of an environment or conversation variable, in bytes (`MAX_VARIABLE_SIZE`). Dify's default.
pub const VARIABLE_BYTES_MAX: usize = 200 * 1024;
/// Longest output of a template, in characters (`TEMPLATE_TRANSFORM_MAX_LENGTH`). Dify's default.
pub const TEMPLATE_CHARS_MAX: usize = 400_000;
/// Most node starts in a run (`WORKFLOW_MAX_EXECUTION_STEPS`). Dify's default.
pub const STEPS_MAX: u64 = 500;
/// Longest working time of a run, in seconds (`WORKFLOW_MAX_EXECUTION_TIME`). Dify's default.
pub const RUN_SECONDS_MAX: u64 = 1200;
/// Shortest pause between two looks at the working time of a run that may be over, in milliseconds. A worker ends an
/// attempt itself when the time is over, so this is for one that does not.
pub const TIME_LIMIT_CHECK_MS: u64 = 1000;
/// Longest time that a form may wait, in seconds (`human_input_timeout_s`). Dify's default: seven days.
pub const HUMAN_INPUT_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Deepest nesting of workflows that call workflows (`call_depth_max`). Dify's default.
pub const CALL_DEPTH_MAX: u64 = 5;
/// Most sub-workflow runs that one job has under way while its worker continues. Its worker orders no more; as a guard, the
/// owner of the run stops the oldest when there is one more. The setting `plugins.app_calls_max` is not larger.
pub const SIDE_CALLS_MAX: usize = 64;
/// Values whose JSON is longer than this many bytes are stored as blobs (`inline_bytes_max`, at most 32 KiB).
/// An inline value is written up to three times (fact, state, event); fetching a blob costs one round trip.
pub const INLINE_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of inline values in one job (`job_bytes_max`). Above it the largest values travel as blobs.
pub const JOB_BYTES_MAX: usize = 256 * 1024;
/// Largest single value, in bytes of JSON (`value_bytes_max`). A larger one fails its node.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most node transitions in one step. A `continue` fact resumes the rest, so that a wide graph does not delay
/// the other runs of its shard.
pub const STEP_TRANSITIONS_MAX: usize = 256;
/// Most bytes of changes in one step, for the same reason.
pub const STEP_BYTES_MAX: usize = 256 * 1024;
/// Most jobs of one run that are queued or running; the others wait as `ready` in its state.
pub const RUN_JOBS_MAX: u64 = 256;
/// Most frames of one container that are open at the same time, whatever its `parallel_nums`. More frames
/// than a run may have jobs would only wait.
pub const FRAMES_OPEN_MAX: u32 = 256;
/// Number of frames of one run above which an iteration runs its items one at a time: the windows of nested
/// iterations would multiply.
pub const FRAMES_OF_RUN_MAX: usize = 1024;
/// Most items of an iteration, and most rounds of a loop (`container_rounds_max`). Nodes in a body count as
/// steps, but an empty body would never meet another limit.
pub const CONTAINER_ROUNDS_MAX: u64 = 100_000;
/// Most messages of a list, including those that are no longer visible (`messages_max`).
pub const MESSAGES_MAX: u64 = 10_000;
/// Most bytes of a message list (`messages_bytes_max`). The scheduler that owns the run holds the list in
/// memory.
pub const MESSAGES_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most message lists of a run.
pub const LISTS_MAX: usize = 64;
/// Most bytes of `rt`, the runtime data that a run stores for its steps (`runtime_bytes_max`). A job that
/// reads it carries it.
pub const RUNTIME_BYTES_MAX: u64 = 1024 * 1024;
/// Most records of a run's history (`history_records_max`). A run has more of them than steps.
pub const HISTORY_RECORDS_MAX: u64 = 10_000;
/// Largest record of a run's history, in bytes (`history_record_bytes_max`): a prompt of 1 MiB and its answer.
pub const HISTORY_RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Number of tokens in visible messages above which a list is reported as too long (`messages_tokens_limit`).
/// The default of the design that message lists come from.
pub const MESSAGES_TOKENS_LIMIT: u64 = 4000;
/// Number of tokens in visible messages; four fifths of it cause a warning (`messages_tokens_warning`). Same
/// origin.
pub const MESSAGES_TOKENS_WARNING: u64 = 100_000;
/// Most facts in one commit; more bring no gain.
pub const COMMIT_FACTS_MAX: usize = 64;
/// Bytes of facts after which a commit takes no more.
pub const COMMIT_BYTES_MAX: usize = 1024 * 1024;
/// Fuel of a Jinja template in the scheduler's step (about one unit per instruction). Above it the node goes
/// to a worker.
pub const PURE_FUEL: u64 = 50_000;
/// Bytes of output above which a pure node goes to a worker.
pub const PURE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Duration of a shard's lease without renewal, in milliseconds (`shard_lease_ms`).
pub const SHARD_LEASE_MS: u64 = 5_000;
/// Interval at which a shard's lease is renewed, in milliseconds (`shard_renew_ms`).
pub const SHARD_RENEW_MS: u64 = 1_500;
/// Duration of a job's lease without a heartbeat, in milliseconds (`job_lease_ms`).
pub const JOB_LEASE_MS: u64 = 10_000;
/// Longest wait for a worker to run the hooks of a node that has already ended, in milliseconds, for nodes
/// without their own `queue_timeout_ms`. After it the node ends without the hooks.
pub const LATE_HOOKS_WAIT_MS: u64 = 30_000;
/// Most deliveries of one job before it fails (`deliveries_max`).
pub const DELIVERIES_MAX: u32 = 3;
/// Losses of a job with its worker, in multiples of `deliveries_max`, after which it is given up although other
/// workers died at the same times.
pub const LOSSES_FACTOR: u32 = 4;
/// Further losses after which a job is given up although it was never the only suspect.
pub const LOSSES_MORE: u32 = 32;
/// Jobs without a sign of life that one look at a stream reads.
pub const STALE_READ_MAX: usize = 2_000;
/// Most entries in an inbox before new runs are refused (`inbox_max`).
pub const INBOX_MAX: u64 = 100_000;
/// Fewest characters of the admin key and of the key that seals secrets, unless `scheduler.allow_weak_keys` is
/// set.
pub const KEY_CHARS_MIN: usize = 16;
/// Shards of a new namespace (`shards`). Few shards make large batches; more can be added later.
pub const SHARDS: u16 = 2;
/// Bytes of workflow documents that a process keeps in memory; their graphs take a few times as much.
pub const WORKFLOWS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The least size that a workflow is counted with, in bytes.
pub const WORKFLOW_BYTES_MIN: usize = 4096;
/// Bytes of run states that one scheduler keeps in memory (`run_cache_bytes`).
pub const RUN_CACHE_BYTES: usize = 256 * 1024 * 1024;
/// Most entries of a run's event stream (`run_events_max`); older ones are deleted.
pub const RUN_EVENTS_MAX: usize = 100_000;
/// Retention of an ended run, in seconds (`retention_seconds`): seven days.
pub const RETENTION_SECONDS: u64 = 7 * 24 * 3600;
/// Retention of an idempotency key, in seconds: one day.
pub const IDEMPOTENCY_SECONDS: u64 = 24 * 3600;
/// Longest wait for suggested questions, in seconds (`features.suggested_seconds_max`).
pub const SUGGESTED_SECONDS_MAX: u64 = 60;
/// Longest wait for the text of a recording or the sound of a text, in seconds (`features.speech_seconds_max`).
pub const SPEECH_SECONDS_MAX: u64 = 120;
/// Largest recording, in bytes (`features.audio_bytes_max`): 30 MiB, as in Dify.
pub const AUDIO_BYTES_MAX: u64 = 30 * 1024 * 1024;
/// Longest wait for an answer of OpenAI's moderation or of an API extension, in seconds
/// (`features.moderation_seconds_max`).
pub const MODERATION_SECONDS_MAX: u64 = 60;
/// Longest text that is read aloud, in characters (`features.speech_chars_max`).
pub const SPEECH_CHARS_MAX: usize = 100_000;
/// Lifetime of a blob that no accepted result refers to, in seconds.
pub const BLOB_PENDING_SECONDS: u64 = 3600;
/// Delay before a running job reports its start, in milliseconds. A shorter job reports it together with its
/// end.
pub const STARTED_AFTER_MS: u64 = 20;
/// Longest time for which chunks of a stream are collected into one, in milliseconds.
pub const CHUNK_GATHER_MS: u64 = 20;
/// Most waiting and running jobs in one queue of a shard before new runs that use the queue are refused
/// (`queue_max`). At 1 000 jobs a second this is more than a minute and a half of work.
pub const QUEUE_MAX: u64 = 100_000;
/// Most workers that a list of live workers shows. More would make a page that no person reads.
pub const WORKERS_SHOWN_MAX: usize = 1000;
/// Most queues that a list of queues shows; each costs a request per shard.
pub const QUEUES_SHOWN_MAX: usize = 100;
/// Most jobs that are counted before a waiting job: counting reads them, in pieces of a hundred.
pub const JOBS_COUNTED_MAX: usize = 5000;
/// Retention of a conversation after its last write, in seconds (`conversation_retention_seconds`): thirty
/// days.
pub const CONVERSATION_SECONDS: u64 = 30 * 24 * 3600;
/// Longest wait until a write is durable, in milliseconds (`durability_wait_ms`).
pub const DURABILITY_WAIT_MS: u64 = 1000;
/// A replica of Redis that is away for longer is not waited for, in seconds (`replica_away_seconds`).
pub const REPLICA_AWAY_SECONDS: u64 = 30;
/// The deepest nesting of a value that an executor of a host gives. What is stored around it nests it deeper, and a text of
/// JSON that is deeper than 128 levels is not read.
pub const HOST_VALUE_DEPTH_MAX: usize = 100;
/// The longest text of an executor of a host that people read: of a failure, its class, or a question. Longer ones are
/// cut.
pub const HOST_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Most ratings of an app that are listed, on each shard and in all; the newest ones.
pub const FEEDBACKS_MAX: usize = 10_000;
/// Most ratings of each shard that a request for a page of ratings reads. More of one app would have to be given within one
/// millisecond for a page to be incomplete.
pub const FEEDBACKS_READ_MAX: usize = 500;
/// Longest time for the receiver of a notice to answer, in milliseconds (`webhooks.timeout_ms`).
pub const WEBHOOK_TIMEOUT_MS: u64 = 10_000;
/// Most tries of a notice (`webhooks.tries_max`): with the pauses between them about a day and a half.
pub const WEBHOOK_TRIES_MAX: u32 = 13;
/// Longest pause between two tries of a notice, in seconds (`webhooks.pause_seconds_max`): six hours.
pub const WEBHOOK_PAUSE_SECONDS_MAX: u64 = 6 * 3600;
/// Most notices of an app that wait on a shard (`webhooks.waiting_max`).
pub const WEBHOOK_WAITING_MAX: u64 = 10_000;
/// Most records of notices that were given up, for each app and shard (`webhooks.given_up_max`).
pub const WEBHOOK_GIVEN_UP_MAX: usize = 100;
/// Largest body of a notice, in bytes (`webhooks.body_bytes_max`).
pub const WEBHOOK_BODY_BYTES_MAX: usize = 256 * 1024;
/// Most entries of the audit log (`audit_entries_max`): some hundred bytes each.
pub const AUDIT_ENTRIES_MAX: u64 = 100_000;
/// Days after which an entry of the audit log is removed (`audit_days`).
pub const AUDIT_DAYS: u64 = 365;
/// Longest wait of an answer for its entry in the audit log, in milliseconds.
pub const AUDIT_WRITE_MS: u64 = 2000;
/// Most entries of the audit log that a request for a filtered page looks at.
pub const AUDIT_LOOKED_MAX: usize = 10_000;
/// Most versions of an app that are kept (`app_versions_max`): more than a year of weekly publishing.
pub const APP_VERSIONS_MAX: usize = 100;
/// Most runs of each open status that are looked at to find one that uses a version.
pub const VERSION_RUNS_LOOKED_MAX: usize = 10_000;
/// Most removals of apps and users that are under way (`scheduler.removals_max`): they take turns, a piece each.
pub const REMOVALS_MAX: usize = 100;
/// Most runs that a request for a list of runs, or for the logs of an app, looks at (`logs_scanned_max`).
pub const LOGS_SCANNED_MAX: usize = 10_000;
/// Most users of apps that a scheduler remembers as noted.
pub const END_USERS_KNOWN_MAX: usize = 10_000;
/// Most turns stored of a conversation: twice as many as a run receives.
pub const CONVERSATION_TURNS_MAX: usize = 1000;
/// Runs that a conversation remembers until their turns are stored. Of more, the oldest are forgotten.
pub const CONVERSATION_OPEN_MAX: usize = 100;
/// Largest inputs shown with a conversation, in bytes: the API reads lists of conversations whole.
pub const CONVERSATION_INPUTS_BYTES_MAX: usize = 8 * 1024;
/// Longest name of a conversation, in characters: the width of Dify's column.
pub const CONVERSATION_NAME_CHARS_MAX: usize = 255;
/// Longest feedback text of a user on a message, in characters: one page.
pub const FEEDBACK_CHARS_MAX: usize = 4096;
/// Most turns of its conversation that a run receives: Dify reads no more messages than that.
pub const HISTORY_TURNS_MAX: usize = 500;
/// Age below which ended runs are not evicted when memory is short, in seconds: a client may be about to read
/// the result.
pub const EVICTION_AGE_SECONDS: u64 = 60;
/// Interval at which a job that waits for a sub-workflow run checks it, in milliseconds, in case the
/// notification of its end got lost.
pub const CALL_LOOK_MS: u64 = 300_000;
/// Most combinations of provider, model and API key on `/metrics` (`scheduler.spending_series_max`).
pub const SPENDING_SERIES_MAX: usize = 500;
/// Retention of what a key has spent on a day, in seconds.
pub const KEY_DAYS_SECONDS: u64 = 92 * 24 * 3600;
/// Longest pause of a model, whatever its provider asks for, and longest wait for a slot at a model, in
/// milliseconds. Then the model is called again.
pub const MODEL_REST_MAX_MS: u64 = 3_600_000;
/// Time for which a call that does not return when it is due keeps its position in a model's queue, in
/// milliseconds.
pub const MODEL_QUEUE_GRACE_MS: u64 = 60_000;
/// Retention of an unused bucket of a model's limits, in seconds: longer than any pause and any wait.
pub const MODEL_BUCKET_SECONDS: u64 = 3 * 3600;
/// Most refusals by the provider of one call to a model with limits before the node fails (`refusals_max`).
pub const MODEL_REFUSALS_MAX: u32 = 10;
/// Most entries of a kind (providers, profiles, library nodes …) in a namespace: a worker reads all of them
/// when one changes.
pub const CATALOG_ENTRIES_MAX: usize = 1000;
/// Largest catalog entry, in bytes of JSON.
pub const CATALOG_ENTRY_BYTES_MAX: usize = 64 * 1024;
/// How long the package of a plugin is kept that no entry names yet, in seconds.
pub const PACKAGE_UNKEPT_SECONDS: u64 = 3600;
/// Longest age of a worker's copy of the providers in Redis, in milliseconds (`providers_refresh_ms`). After
/// it the next node that calls a model checks for changes.
pub const PROVIDERS_REFRESH_MS: u64 = 1000;
/// Most times that a person is asked for missing input of a step (`parameter_rounds_max`). A person who
/// answers five times without giving it needs something other than a form.
pub const PARAMETER_ROUNDS_MAX: u32 = 5;
/// Longest wait inside a job, in milliseconds (`job_wait_max_ms`). A longer wait is parked in Redis.
pub const JOB_WAIT_MS: u64 = 1000;
/// Largest result stored inside a journal entry, in bytes of JSON; a larger one is a blob of the run.
pub const STEP_INLINE_BYTES_MAX: usize = 1024 * 1024;
/// Most MCP servers that an agent's parameters may name; each is asked for its tools before the first round.
pub const AGENT_SERVERS_MAX: usize = 16;
/// Longest wait for an MCP server that a file may ask for, in seconds.
pub const AGENT_SERVER_SECONDS_MAX: u64 = 3600;
/// Most bytes of the list of tools of one MCP server, all pages together. Real lists have some hundred kilobytes; a file
/// may name a server, so this bounds what the server can make a worker keep.
pub const MCP_LIST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most requests to resume the stream of one answer of an MCP server. A server could otherwise send a new event id each
/// time and never answer.
pub const MCP_RESUMES_MAX: u32 = 100;
/// Most types of content in a tool's answer that are reported as left out.
pub const CONTENT_TYPES_NAMED_MAX: usize = 20;
/// Longest type of content that is reported as left out, in characters.
pub const CONTENT_TYPE_CHARS_MAX: usize = 64;
/// Longest text of an agent's log line in events and metadata, in bytes. Longer ones are cut; the node's
/// output `json` has them whole. As large as an inline value: a line is written with the fact, the state and
/// the event.
pub const AGENT_LOG_TEXT_BYTES_MAX: usize = INLINE_BYTES_MAX;
/// Most bytes of text of one log line of an agent in an event.
pub const AGENT_LOG_LINE_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of text of an agent's log in its metadata.
pub const AGENT_LOG_BYTES_MAX: usize = 256 * 1024;
/// Most bytes stored of one dead letter.
pub const DEAD_BYTES_MAX: usize = 16 * 1024;
/// Most entries of a dead-letter stream.
pub const DEAD_MAX: usize = 10_000;
/// Longest wait for the connection of an http-request, in seconds (`connect_seconds`). Dify's default.
pub const HTTP_CONNECT_SECONDS: u64 = 10;
/// Longest silence of the server, in seconds (`read_seconds`). Dify's default.
pub const HTTP_READ_SECONDS: u64 = 600;
/// Longest wait until the server takes the next piece of a request, in seconds (`write_seconds`). Dify's
/// default.
pub const HTTP_WRITE_SECONDS: u64 = 600;
/// Largest text response, in bytes (`text_bytes_max`). Dify's default.
pub const HTTP_TEXT_BYTES_MAX: u64 = 1024 * 1024;
/// Largest file response, in bytes (`file_bytes_max`). Dify's default.
pub const HTTP_FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Most bytes of files that one request sends (`upload_bytes_max`). They are held in memory until the
/// response begins, since a redirect may need them again.
pub const HTTP_UPLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest file that a client may upload, in bytes (`scheduler.upload_bytes_max`). Dify's default.
pub const UPLOAD_BYTES_MAX: u64 = 15 * 1024 * 1024;
/// Largest picture that a client may upload, in bytes (`uploads.image_bytes_max`). Dify's default, as the next two.
pub const UPLOAD_IMAGE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Largest video that a client may upload, in bytes (`uploads.video_bytes_max`).
pub const UPLOAD_VIDEO_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// Largest audio file that a client may upload, in bytes (`uploads.audio_bytes_max`).
pub const UPLOAD_AUDIO_BYTES_MAX: u64 = 50 * 1024 * 1024;
/// Time after which the files of a request that became no run are removed, in seconds: much longer than any request
/// takes.
pub const EARLY_FILES_SECONDS: u64 = 60 * 60;
/// Most uploads that one request names, and most runs whose files it names (`uploads.request_files_max`): each is looked up.
pub const REQUEST_FILES_MAX: usize = 100;
/// The number of files that front ends offer for a list of files (`uploads.workflow_files_max`). Dify's default.
pub const WORKFLOW_FILES_MAX: u64 = 10;
/// Most bytes of an app's uploads (`uploads.app_bytes_max`): one app cannot fill the storage unseen.
pub const UPLOADS_OF_APP_BYTES_MAX: u64 = 50 * 1024 * 1024 * 1024;
/// Most bytes of the uploads of one user of an app (`uploads.user_bytes_max`).
pub const UPLOADS_OF_USER_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Seconds for which the URL of a file opens it (`uploads.url_seconds`). Dify's default.
pub const FILE_URL_SECONDS: u64 = 300;
/// Bytes of an upload that are in memory at once on their way to a bucket: a part of it. S3 wants 5 MiB or more.
pub const UPLOAD_PART_BYTES: usize = 8 * 1024 * 1024;
/// Most bytes of an upload's form besides its file: names, headers, and `user`.
pub const UPLOAD_FORM_BYTES_MAX: u64 = 64 * 1024;
/// Longest time for the bytes of an upload to arrive, in seconds: the largest one then needs 1.4 Mbit/s.
pub const UPLOAD_SECONDS_MAX: u64 = 600;
/// Days after which an upload is removed (`scheduler.upload_days`). Runs that use it have their own copy.
pub const UPLOAD_DAYS: u64 = 30;
/// Largest body of a webhook request, in bytes (`webhook_bytes_max`). Dify's default.
pub const WEBHOOK_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Most connections that a scheduler's API accepts (`scheduler.connections_max`): enough for thousands of
/// clients that follow a run each. An idle one takes some KiB of memory and a file descriptor.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Interval at which the files of a listener's certificate are looked at again, in seconds (`scheduler.tls_check_seconds`).
pub const TLS_CHECK_SECONDS: u64 = 30;
/// Most connections to `scheduler.metrics_listen` (`scheduler.metrics_connections_max`), and to a worker
/// (`worker.connections_max`): enough for scrapers and probes.
pub const SIDE_CONNECTIONS_MAX: usize = 64;
/// Longest time for the head of a request, in milliseconds (`header_timeout_ms`): a head is one packet or
/// two.
pub const HEADER_TIMEOUT_MS: u64 = 10_000;
/// Largest head of a request, in bytes; a longer one is answered with 431. Proxies and clients send a few KiB.
/// Each connection may hold as much without a key.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most connections of a listener that wait to be accepted: all clients may return at once after a restart. The
/// system may have a lower limit (`net.core.somaxconn`).
pub const LISTEN_BACKLOG: u32 = 4096;
/// Longest idle time of a connection between two requests, in seconds (`idle_seconds`). It is longer than the
/// 60 to 90 of most proxies and clients, since the client should be the side that closes.
pub const IDLE_SECONDS: u64 = 120;
/// Wrong keys from one address within a second that are answered as such (`scheduler.wrong_keys_max`): more
/// than a person or a client with an old key sends.
pub const WRONG_KEYS_MAX: usize = 16;
/// Most addresses for which wrong keys within the last second are counted; above it the oldest are dropped.
/// It bounds memory: about 300 bytes each.
pub const WRONG_KEY_ADDRESSES_MAX: usize = 8192;
/// Most missed times of a schedule that are made up for (`catch_up_max`): one day of a schedule that fires
/// each minute.
pub const CATCH_UP_MAX: u64 = 1440;
/// Most redirects of one request (`redirects_max`). The default of Dify's client.
pub const HTTP_REDIRECTS_MAX: u32 = 20;
/// The only port of a code node's tunnels (`http.tunnel_ports`): that of HTTPS. The worker cannot see what a tunnel
/// carries, so other ports would let code speak to the databases of an allowed host.
pub const HTTP_TUNNEL_PORT: u16 = 443;
/// Most log lines about the calls of one execution of code. Code could otherwise fill the worker's log.
pub const CODE_CALL_NOTES_MAX: u32 = 1000;
/// Most refused requests for connections of one execution of code; then it gets no more connections. Each costs
/// the worker a message.
pub const CODE_REFUSALS_MAX: u32 = 1000;
/// Longest name and longest media type that come with an upload, in characters. Its record has to stay small, and longer
/// names are cut in runs anyway.
pub const UPLOAD_TEXT_CHARS_MAX: usize = 255;
/// Most characters of a file's name. Databases and file systems that receive the file have this limit (Dify's too); a
/// longer name is cut before its extension.
pub const FILE_NAME_CHARS_MAX: usize = 255;
/// Longest time to ask the servers of a request's remote files for name, type and size, in milliseconds, for all files
/// together: a person waits for the answer to the request.
pub const REMOTE_FILES_MS: u64 = 2_000;
/// Most files of a request whose servers are asked: more than an app's form usually has.
pub const REMOTE_FILES_MAX: usize = 64;
/// The smallest JSON body of a response that is compressed, in bytes: a smaller one fits into one packet anyway.
pub const GZIP_BYTES_MIN: usize = 1024;
/// Most bytes of an event stream that wait for its client (`scheduler.stream_buffer_bytes`): about 400 words. Further
/// events wait in Redis.
pub const STREAM_BUFFER_BYTES: usize = 256 * 1024;
/// Most servers that a process asks about files at the same time, over all requests.
pub const REMOTE_FILES_AT_ONCE: usize = 256;
/// Retention of the segments of a document that is not published yet, in seconds after the last write: longer
/// than any job is in flight or parked.
pub const KNOWLEDGE_PENDING_SECONDS: u64 = 7 * 24 * 3600;
/// Time for which the segments of a replaced or removed document stay readable, in seconds: longer than a worker
/// loads.
pub const KNOWLEDGE_REPLACED_SECONDS: u64 = 120;
/// Most messages that wait for an MCP server program that does not read its input. A call is one or two
/// messages, so such a server is far behind.
pub const MCP_LINES_WAITING_MAX: usize = 256;
/// Longest name or id of a dataset or a document, in bytes.
pub const KNOWLEDGE_NAME_BYTES_MAX: usize = 255;
/// Largest limit that an app or a key can have, of requests a second or of runs at the same time.
pub const APP_LIMIT_MAX: u64 = 1_000_000;
/// Time for which the places of an app are kept after the last change, in seconds: a day.
pub const PLACES_KEPT_SECONDS: u64 = 24 * 3600;
/// Longest wait of a submission for the end of its run, in seconds (`scheduler.wait_seconds_max`).
pub const WAIT_SECONDS_MAX: u64 = 300;
/// Longest wait of a request of Dify's service API for a search in a dataset or a change of segments, in seconds
/// (`knowledge.request_seconds_max`): clients give up after about a minute.
pub const KNOWLEDGE_REQUEST_SECONDS_MAX: u64 = 60;
/// Largest segment, in characters: more than any embedding model takes.
pub const KNOWLEDGE_SEGMENT_CHARS_MAX: usize = 32_000;
/// Time for which a job of the annotation reply can be asked for, in seconds.
pub const ANNOTATION_JOB_SECONDS: u64 = 24 * 3600;
/// Most annotations of an app (`features.annotations_max`): their questions are in one index in a worker's memory.
pub const ANNOTATIONS_MAX: u64 = 10_000;
/// Longest annotation, question and answer together, in bytes (`features.annotation_bytes_max`).
pub const ANNOTATION_BYTES_MAX: usize = 64 * 1024;
/// Most uses of one annotation that are kept (`features.annotation_hits_max`).
pub const ANNOTATION_HITS_MAX: usize = 1000;
/// Longest search for a matching annotation, in seconds (`features.annotation_seconds_max`). Then the workflow runs.
/// Longer than it takes another worker to take over the search of one that died.
pub const ANNOTATION_SECONDS_MAX: u64 = 30;
/// Deepest nesting of placeholders in a prompt (`prompt_levels_max` of the node).
pub const PROMPT_LEVELS_MAX: usize = 5;
/// Longest prompt with its variables filled in, in bytes (`worker.prompt_bytes_max`): of an `llm` node in its
/// profile form, and of any model call of a step.
pub const PROMPT_BYTES_MAX: usize = 1024 * 1024;
/// Most tool calls in one reply of a model (`max_tool_calls_per_request` of the node).
pub const TOOL_CALLS_MAX: u32 = 3;
/// Most warnings that a run keeps (`run.warnings_max`), and most of one attempt of a node.
pub const RUN_WARNINGS_MAX: usize = 100;
/// Most labels of a run (`labels_max`). Each costs an entry in an index for as long as the run is kept.
pub const RUN_LABELS_MAX: usize = 16;
/// Longest name and longest value of a label, in characters (`label_chars_max`): an id with a prefix fits.
pub const RUN_LABEL_CHARS_MAX: usize = 128;
/// Longest text of a warning, in characters. A longer one is cut: the run's state keeps it.
pub const WARNING_CHARS_MAX: usize = 1000;
/// Largest value that the row of a node shows with `values=true`, in bytes of JSON; of a larger one only the size.
pub const ROW_VALUE_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of values in all rows of a run: a few pages of a browser.
pub const ROWS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most events that are read for the values of rows: more than most runs have, and about a second of work.
pub const ROW_EVENTS_MAX: usize = 50_000;
/// Longest check whether a registered Call can be used, in milliseconds.
pub const CALL_CHECK_MS: u64 = 5_000;
/// Time after which a failed check of a Call is repeated, in milliseconds.
pub const CALL_CHECK_AGAIN_MS: u64 = 30_000;
/// Most Calls that a worker checks at the same time.
pub const CALL_CHECKS_AT_ONCE: usize = 8;
/// Longest wait for the parameters that the tools of an agent have at run time, in seconds. Then the model gets those that they
/// declare.
pub const RUN_TIME_PARAMETERS_SECONDS: u64 = 10;
