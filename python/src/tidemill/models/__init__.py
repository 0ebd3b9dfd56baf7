"""The answers and requests of `/api/v1`, as its description in docs/openapi/native.json has them.

Made by python/scripts/generate_models.py: change the document, and run that.
Document: 287b5de817f3ab42eee373d9dcef87aeef951e5e7d408e4c81dafde282e3f22c
Rest: 66310ec4d9c962bed911f1a0b05f8e013433168f5d4bc53ddba07d4b68ad12d6
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typing_extensions import NotRequired, TypedDict, TypedDict


class Accepted(TypedDict):
    """The request is stored, and takes effect."""

    accepted: bool


class Action(TypedDict):
    """A button of a form."""

    id: str
    title: str
    button_style: NotRequired[str]


class AdminKey(TypedDict):
    """An admin key."""

    id: str
    label: str | None
    role: Literal["read-only", "operator", "admin"]
    created_at: float | None
    """Unix seconds."""
    expires_at: float | None
    """Unix seconds."""
    last_used_at: float | None
    """Unix seconds."""
    revoked_at: float | None
    """Unix seconds."""


class AdminKeyRequest(TypedDict, closed=True):
    """An admin key to make."""

    label: str
    """Who or what has the key."""
    role: Literal["read-only", "operator", "admin"]
    expires_in_seconds: NotRequired[int]


class AdminKeys(TypedDict):
    """Admin keys."""

    data: list[AdminKey]


class AnswerRequest(TypedDict, closed=True):
    """An answer: `action` with `inputs`, or `input`, or `cancel`."""

    action: NotRequired[str]
    inputs: NotRequired[dict[str, Any]]
    input: NotRequired[Any]
    cancel: NotRequired[bool]
    key: NotRequired[str]
    answered_by: NotRequired[str]
    durability: NotRequired[Literal["memory", "replicated", "fsync"]]
    """What must have happened before the answer; `scheduler.durability` by default."""


class AppKeyRequest(TypedDict, closed=True):
    """What a new key of an app may do."""

    label: NotRequired[str]
    """At most 100 characters."""
    scopes: NotRequired[list[Literal["run", "read", "files", "forms"]]]
    """Without it the key may do everything."""
    expires_in_seconds: NotRequired[int]


class AppVersion(TypedDict):
    """A version that can be pinned."""

    version: str
    workflow_id: str
    created_at: float
    """Unix seconds."""
    is_current: bool


class AppVersions(TypedDict):
    """All of `AppVersion`."""

    data: list[AppVersion]


class AuditEntry(TypedDict):
    """A request that changed something, or was refused."""

    id: str
    at: float
    """Unix seconds."""
    who: str
    """The id of an admin key, or `settings`."""
    label: str | None
    """The label of the admin key."""
    role: str
    address: str | None
    """The address of the client."""
    action: str
    """Method and route."""
    named: dict[str, str]
    """The kind and the id of each thing in the path; `made`: the id of what was made."""
    status: int
    """The HTTP status of the answer."""


class Breakpoint(TypedDict, closed=True):
    """A command that waits for a node."""

    after: str
    command: Literal["stop", "abort", "pause", "update_variables"]
    reason: NotRequired[str]
    updates: NotRequired[Any]
    variables: NotRequired[Any]


class Budget(TypedDict):
    """Limits of a key. An absent field has no limit."""

    tokens: NotRequired[int | None]
    tokens_per_day: NotRequired[int | None]
    price: NotRequired[str | None]
    """Such as `5.00 EUR`."""
    price_per_day: NotRequired[str | None]


class Call(TypedDict):
    """A sub-workflow run of a run."""

    run: str
    app: str | None
    node: str | None
    frame: str
    error: str | None


class CallCheck(TypedDict):
    """Whether a worker can execute a Call."""

    worker: str
    usable: bool | None
    reason: str | None


class Caller(TypedDict):
    """The node of another run that called this one."""

    run: str
    node: str
    frame: str


class CommandRequest(TypedDict, closed=True):
    """A command to a run."""

    command: Literal["stop", "abort", "pause", "resume", "update_variables"]
    reason: NotRequired[str]
    updates: NotRequired[Any]
    variables: NotRequired[Any]
    key: NotRequired[str]
    """A command counts once under its key."""
    durability: NotRequired[Literal["memory", "replicated", "fsync"]]
    """What must have happened before the answer; `scheduler.durability` by default."""


class CreatedAdminKey(TypedDict):
    """A new admin key. It is shown once."""

    id: str
    label: str | None
    role: Literal["read-only", "operator", "admin"]
    key: str
    created_at: float
    """Unix seconds."""
    expires_at: float | None
    """Unix seconds."""


class CreatedKey(TypedDict):
    """A new key. It is shown once."""

    id: str
    app: str | None
    name: str | None
    key: str
    created_at: float
    """Unix seconds."""
    expires_at: float | None
    """Unix seconds."""
    first: bool
    scope: Literal["app", "datasets"]
    label: str | None
    scopes: list[Literal["run", "read", "files", "forms"]] | None
    """What a key of an app may do; null for a key of datasets."""


class DeadFilter(TypedDict, closed=True):
    """Conditions that dead letters must meet; `{}` means all."""

    what: NotRequired[Literal["job", "fact"]]
    app: NotRequired[str]
    node: NotRequired[str]
    run: NotRequired[str]
    reason: NotRequired[str]
    since: NotRequired[float]
    """Unix seconds."""
    until: NotRequired[float]
    """Unix seconds."""


class DeadLetter(TypedDict):
    """Work that was given up."""

    id: str
    what: Literal["job", "fact", "timer"]
    run: str | None
    node_id: str | None
    frame: str | None
    reason: str
    at: float
    """Unix seconds."""


class DeadLetterContent(TypedDict):
    """A dead letter with its content."""

    id: str
    what: Literal["job", "fact", "timer"]
    run: str | None
    node_id: str | None
    frame: str | None
    reason: str
    at: float
    """Unix seconds."""
    content: str
    is_whole: bool


class DeadLetters(TypedDict):
    """A page of `DeadLetter`."""

    data: list[DeadLetter]
    next: str | None
    """Where the next page begins; null at the end."""


class Diagnostic(TypedDict):
    """A problem of a workflow. Warnings that a scheduler adds may lack a code and a place."""

    severity: Literal["error", "warning"]
    message: str
    code: NotRequired[str]
    path: NotRequired[str | None]
    line: NotRequired[int | None]
    hint: NotRequired[str | None]
    node_id: NotRequired[str | None]
    node_title: NotRequired[str | None]
    datasets: NotRequired[list[str]]
    """Of `dataset.unknown`: the datasets that no worker has."""


class EmbeddingModel(TypedDict):
    """A model by its provider."""

    provider: str
    model: str


class Entry(TypedDict):
    """A stored provider, profile, library node, Call, service, data source, or the credentials of a plugin. It has the fields of its kind, too; secrets are `***`."""

    id: str
    version: NotRequired[int]
    created_at: NotRequired[float]
    """Unix seconds."""
    updated_at: NotRequired[float]
    """Unix seconds."""
    warnings: NotRequired[list[str]]
    default: NotRequired[bool]
    """Of a profile."""
    workers: NotRequired[list[CallCheck]]
    """Of a Call."""


class EntryRequest(TypedDict):
    """An entry to store."""

    id: NotRequired[str]
    version: NotRequired[int]
    default: NotRequired[bool]


class Event(TypedDict):
    """An event of a run, the `data:` of a server-sent event."""

    type: str
    data: dict[str, Any]
    id: str
    run_id: str
    seq: int
    """Counts the events of the run from 1."""
    ts: int
    """Unix milliseconds."""


class File(TypedDict):
    """An upload."""

    id: str
    name: str
    size: int
    extension: str
    mime_type: str
    created_at: int


class GivenUpNotice(TypedDict):
    """A notice that was given up."""

    id: str
    """The `webhook-id`."""
    event: Literal["ended", "failed", "paused"]
    run: str
    tries: int
    error: str
    status: int | None
    """The HTTP status of the last answer."""
    last_at: float
    """Unix seconds."""


class History(TypedDict):
    """A page of the history of a run."""

    data: list[dict[str, Any]]
    next: int | None


class HostConfig(TypedDict, closed=True):
    """What a host says in an object of its own; the fields of the same name in the request win."""

    tenant_id: NotRequired[str]
    app_id: NotRequired[str]
    workflow_id: NotRequired[str]
    user_id: NotRequired[str]
    user_from: NotRequired[str]
    invoke_from: NotRequired[str]
    max_steps: NotRequired[int]
    max_execution_steps: NotRequired[int]
    max_execution_time: NotRequired[int]
    max_execution_time_s: NotRequired[int]
    call_depth: NotRequired[int]


class Indexed(TypedDict):
    """The run that indexes a document."""

    dataset_id: str
    document_id: str
    run: str
    segments: int


class Indexing(TypedDict):
    """A version that is not searchable yet."""

    run: str
    done: int
    total: int
    error: str
    at: float
    """Unix seconds."""


class KeyRequest(TypedDict, closed=True):
    """Asks for a key that belongs to no app."""

    scope: Literal["datasets"]
    label: NotRequired[str]
    """At most 100 characters."""
    expires_in_seconds: NotRequired[int]


class Limits(TypedDict):
    """Limits that are set for an app or a key. An absent field has the default of the settings; 0: no limit."""

    requests_per_second: NotRequired[int | None]
    """Requests a second."""
    runs_max: NotRequired[int | None]
    """Runs at the same time."""


class LimitsInForce(TypedDict):
    """The limits of an app or a key with the defaults of the settings. Null: no limit."""

    requests_per_second: int | None
    runs_max: int | None
    set: Limits
    runs: int | None
    """Runs that count now; null when no limit counts them."""


class MessageList(TypedDict):
    """A list of messages with a page of its messages."""

    conversation_id: str
    version: int
    current_batch: int
    message_count: int
    stored_count: int
    token_usage: dict[str, Any]
    visible: list[int]
    mark_map: dict[str, Any]
    batches: Any
    applied_ops: dict[str, Any]
    data: list[dict[str, Any]]
    next: int | None


class MessageListSummary(TypedDict):
    """A list of messages of a run."""

    conversation_id: str
    version: int
    current_batch: int
    message_count: int
    stored_count: int
    token_usage: dict[str, Any]


class Missing(TypedDict):
    """What the set-up of a worker lacks."""

    need: dict[str, Any]
    text: str
    reason: str
    asked_at: float | None
    """Unix seconds."""


class MissingProfile(TypedDict):
    """A profile that does not exist, and a node that names it."""

    node_id: str
    profile_id: str


class ModelSpending(TypedDict):
    """What a run has spent on one model, on sub-workflow runs, or on tools."""

    kind: Literal["model", "run", "tool"]
    provider: str | None
    model: str | None
    calls: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    wasted_calls: int
    wasted_tokens: int
    total_price: str | None
    currency: str


class MoreShards(TypedDict, closed=True):
    """A request for more shards."""

    shards: int


class Pause(TypedDict):
    """A question of a run. Kinds other than `human_input` have further fields."""

    pause_id: str
    kind: str
    node_id: str
    status: Literal["pending", "answered", "expired", "cancelled"]
    opened_at: float | None
    """Unix seconds."""
    expires_at: float | None
    """Unix seconds."""
    form_token: str
    answer: dict[str, Any] | None
    node_execution_id: NotRequired[str]
    node_title: NotRequired[str]
    content: NotRequired[str]
    inputs: NotRequired[list[dict[str, Any]]]
    actions: NotRequired[list[Action]]
    defaults: NotRequired[Any]
    frame: NotRequired[str]
    prompt: NotRequired[str]
    schema: NotRequired[Any]
    options: NotRequired[Any]
    timeout_ms: NotRequired[int | None]
    on_timeout: NotRequired[Any]
    timeout_s: NotRequired[float]
    message: NotRequired[str]
    simple: NotRequired[bool]
    risk: NotRequired[Any]
    reason: NotRequired[Any]
    input: NotRequired[Any]
    arguments: NotRequired[Any]
    interaction_type: NotRequired[str]


class Pauses(TypedDict):
    """All of `Pause`."""

    data: list[Pause]


class PluginOnWorker(TypedDict):
    """The state of a plugin on a living worker."""

    worker: str
    state: Literal["ready", "failed", "disabled", "preparing"] | None
    """`disabled`: the worker runs no plugins. null: the worker has not seen it yet."""
    note: str
    """What is done now, or the reason of a failure."""


class PluginOptions(TypedDict):
    """Options of a parameter."""

    options: list[dict[str, Any]]
    """Each has `value` and `label`, and may have `icon`."""


class PluginOptionsRequest(TypedDict, closed=True):
    """A question for the options of a parameter."""

    provider: str
    tool: str
    parameter: str
    """Of the type `dynamic-select`."""
    app: NotRequired[str]
    """The app whose credentials are used."""


class PublishRequest(TypedDict):
    """A workflow, and the id of the app that gets it as a new version."""

    workflow: str
    """The text of the file."""
    id: NotRequired[str]


class PublishedTrigger(TypedDict):
    """A trigger of the published version."""

    id: str
    kind: str
    node_id: str
    path: str | None
    """The path of a webhook."""


class Queue(TypedDict):
    """A queue over all shards."""

    name: str
    waiting: int
    held: int
    oldest_at: float | None
    """Unix seconds."""
    oldest_seconds: float | None
    served: bool | None
    workers: list[str]


class Queues(TypedDict):
    """All of `Queue`."""

    data: list[Queue]
    is_whole: bool


class RaisedShards(TypedDict):
    """The number of shards, and the number before."""

    shards: int
    raised_from: int


class RefusedLetter(TypedDict):
    """A dead letter that stays."""

    letter: str
    run: str
    message: str


class Removal(TypedDict):
    """A removal of an app, or of a user of one, that is under way."""

    id: str
    app: str
    user: str | None
    """Null for a whole app."""
    runs: Literal["keep", "stop", "remove"]
    asked_at: float
    """Unix seconds."""
    stage: str
    """What is being removed now."""
    removed: dict[str, int]
    """How many things of each kind were removed."""
    error: str | None
    """Why the last piece of work failed; it is tried again."""


class Removals(TypedDict):
    """All of `Removal`."""

    data: list[Removal]


class Retrieval(TypedDict):
    """How a dataset is searched."""

    search_method: NotRequired[str]
    top_k: NotRequired[int]
    score_threshold: NotRequired[float | None]
    reranking_model: NotRequired[EmbeddingModel | None]
    vector_weight: NotRequired[float]


class RetryRequest(TypedDict, closed=True):
    """Which dead letters to retry."""

    filter: DeadFilter
    dry_run: NotRequired[bool]
    before: NotRequired[str | None]
    limit: NotRequired[int]


class RollbackRequest(TypedDict, closed=True):
    """The version that becomes current again."""

    version: str
    """SHA-256 of the workflow."""


class Rotation(TypedDict, closed=True):
    """How a key is replaced."""

    overlap_seconds: NotRequired[int]
    """How long the old key stays valid; 86400 by default, 0 revokes it."""


class OnError(TypedDict, closed=True):
    """What happens at a failure."""

    use_llm: NotRequired[bool]


class StepExecutor(TypedDict, closed=True):
    """What a step asks a model besides its own work."""

    summary_before: NotRequired[bool]
    facts_after: NotRequired[bool]


class ToolApproval(TypedDict):
    """Tools that need no approval."""

    auto_approved_tools: NotRequired[list[str]]


class RunOptions(TypedDict, closed=True):
    """Limits and switches of a run. They win over those of the workflow and of the settings."""

    max_steps: NotRequired[int]
    deadline_ms: NotRequired[int]
    budget_tokens: NotRequired[int]
    container_rounds_max: NotRequired[int]
    template_chars_max: NotRequired[int]
    inline_bytes_max: NotRequired[int]
    messages_max: NotRequired[int]
    messages_bytes_max: NotRequired[int]
    runtime_bytes_max: NotRequired[int]
    history_records_max: NotRequired[int]
    history_record_bytes_max: NotRequired[int]
    messages_tokens_limit: NotRequired[int]
    messages_tokens_warning: NotRequired[int]
    max_execution_time_s: NotRequired[int]
    max_execution_steps: NotRequired[int]
    """As `max_steps`."""
    max_execution_time: NotRequired[int]
    """As `max_execution_time_s`."""
    human_input_timeout_s: NotRequired[int]
    budget_price: NotRequired[str]
    template_undefined: NotRequired[Literal["empty", "strict"]]
    iteration_conversation_writes: NotRequired[Literal["parent", "local"]]
    nested_answer_stream: NotRequired[Literal["whole", "segments", "none"]]
    iteration_failures_count: NotRequired[bool]
    loop_next_after_last: NotRequired[bool]
    code_texts_become_numbers: NotRequired[bool]
    extractor_requires_all: NotRequired[bool]
    webhook_missing_file_is_all: NotRequired[bool]
    retries_count_as_exceptions: NotRequired[bool]
    loop_conditions_break: NotRequired[bool]
    limits_stop_runs: NotRequired[bool]
    interactive: NotRequired[bool]
    on_error: NotRequired[OnError]
    """What happens at a failure."""
    step_executor: NotRequired[StepExecutor]
    """What a step asks a model besides its own work."""
    tool_approval: NotRequired[ToolApproval]
    """Tools that need no approval."""
    language: NotRequired[Literal["zh", "en"]]
    messages: NotRequired[Any]
    """Initial lists of messages."""


class SegmentRequest(TypedDict):
    """A segment, with the answer of a question."""

    content: str
    answer: NotRequired[str | None]


class Shard(TypedDict):
    """A shard and what is on it."""

    shard: int
    owner: str | None
    """The scheduler that owns it."""
    scheduled: int
    running: int
    paused: int
    ended: int
    inbox: int
    """Facts, with some that are applied already."""


class Shards(TypedDict):
    """All of `Shard`."""

    shards: int
    shards_first: int
    """The number that the namespace began with."""
    data: list[Shard]


class Snapshot(TypedDict):
    """A run that has not ended, as one document."""

    tidemill_snapshot: int
    run_id: str
    version: str
    workflow: Any


class Spending(TypedDict):
    """What a key has spent on models."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    tokens: int
    price: dict[str, str]
    """By currency."""


class Split(TypedDict, closed=True):
    """How a text is split into segments."""

    size: NotRequired[int]
    overlap: NotRequired[int]
    unit: NotRequired[Literal["characters", "tokens"]]


Status: TypeAlias = Literal["scheduled", "running", "paused", "succeeded", "partial-succeeded", "failed", "stopped"]
"""The status of a run."""


class StepEvent(TypedDict):
    """An event in the dialect of a step executor (`dialect=step`)."""

    event: str
    id: NotRequired[str]


class StreamNote(TypedDict):
    """Says what happened to a stream: `reset`, its run has other events than those that were sent; `gone`, its run was removed; `reconnect`, the scheduler stops."""

    type: Literal["reset", "gone", "reconnect"]
    run_id: str


class Submitted(TypedDict):
    """A run that has been accepted."""

    id: str
    status: Status
    version: str
    conversation_id: NotRequired[str]


class Trigger(TypedDict):
    """A trigger of an app."""

    id: str
    kind: Literal["webhook", "schedule", "plugin"]
    app: str
    workflow: str
    node_id: str
    fired_at: float | None
    """Unix seconds."""
    run: str | None
    error: str | None
    path: NotRequired[str]
    cron: NotRequired[str]
    timezone: NotRequired[str]
    next_at: NotRequired[float | None]
    """Unix seconds."""


class Triggers(TypedDict):
    """All of `Trigger`."""

    data: list[Trigger]


class Turn(TypedDict):
    """An earlier turn of a conversation."""

    query: str
    answer: str
    files: NotRequired[list[dict[str, Any]]]


class Wait(TypedDict):
    """The wait of a queued node."""

    queue: str
    since: float | None
    """Unix seconds."""
    seconds: float | None
    served: bool | None
    before: int
    before_is_least: bool
    held_by: str | None


class WaitingNotice(TypedDict):
    """A notice that waits."""

    id: str
    """The `webhook-id`."""
    event: Literal["ended", "failed", "paused"]
    run: str
    tries: int
    next_at: float
    """When it is tried next, in Unix seconds."""
    error: str | None
    status: int | None
    """The HTTP status of the last answer."""
    last_at: float | None
    """Unix seconds."""


class Warning(TypedDict):
    """Something that the author of the workflow may not have meant. Some codes have further fields, such as `handle` or `model`."""

    code: str
    message: str
    node_id: NotRequired[str | None]
    node_title: NotRequired[str | None]
    hint: NotRequired[str | None]


class Webhook(TypedDict):
    """The server that is notified about the runs of an app."""

    app: str
    url: str
    events: list[Literal["ended", "failed", "paused"]]
    include: list[Literal["outputs"]]
    created_at: float
    """Unix seconds."""
    updated_at: float
    """Unix seconds."""
    secret: NotRequired[str]
    """Only in the answer that makes it."""


class WebhookRequest(TypedDict, closed=True):
    """A webhook to set."""

    url: str
    events: NotRequired[list[Literal["ended", "failed", "paused"]]]
    include: NotRequired[list[Literal["outputs"]]]
    secret: NotRequired[str]
    """`whsec_` and 24 to 64 bytes in base64, or `new`."""


class WebhookTest(TypedDict):
    """The result of a test."""

    delivered: bool
    status: int | None
    error: str | None


class Worker(TypedDict):
    """A living worker. One of an older version has only the required fields."""

    name: str
    seen_at: float
    """Unix seconds."""
    seen_seconds: float
    jobs_held: int | None
    """Null of a worker without a record."""
    version: NotRequired[str]
    host: NotRequired[str]
    pid: NotRequired[int]
    started_at: NotRequired[float]
    """Unix seconds."""
    queues: NotRequired[list[str]]
    permits: NotRequired[int]
    providers: NotRequired[list[dict[str, Any]]]
    profiles: NotRequired[list[dict[str, Any]]]
    default_profile: NotRequired[str | None]
    tools: NotRequired[list[str]]
    plugins: NotRequired[list[dict[str, Any]]]
    """The state of each installed plugin: `id`, `sha256`, `state`, `note`."""
    calls: NotRequired[list[dict[str, Any]]]
    variables: NotRequired[list[str]]
    code: NotRequired[list[str]]
    documents: NotRequired[bool]
    datasets: NotRequired[list[str]]
    key_fingerprint: NotRequired[str | None]
    hosted: NotRequired[dict[str, list[str]]]
    """What the program around the worker executes itself: `nodes`, `types`, `tools`, `queues`, `calls`, as far as there are any."""
    missing: NotRequired[list[Missing]]


class Workers(TypedDict):
    """All of `Worker`."""

    data: list[Worker]


class App(TypedDict):
    """A published workflow."""

    id: str
    name: str
    mode: str
    version: str
    """SHA-256 of the workflow."""
    state: Literal["on", "off", "removing"]
    """Only an app that is on accepts new runs."""
    workflow_id: str
    """The version as a UUID."""
    created_at: float
    """Unix seconds."""
    limits: NotRequired[LimitsInForce]


class Apps(TypedDict):
    """All of `App`."""

    data: list[App]


class AuditEntries(TypedDict):
    """A page of the audit log."""

    data: list[AuditEntry]
    next: str | None
    """The `before` of the following page."""
    scanned: int
    """How many entries the request has looked at."""


class Dataset(TypedDict):
    """A dataset."""

    id: str
    name: str
    description: str
    indexing_technique: Literal["high_quality", "economy"]
    embedding: EmbeddingModel | None
    retrieval: Retrieval
    created_at: float
    """Unix seconds."""


class DatasetRequest(TypedDict, closed=True):
    """A dataset to create; `id` or `name` is required."""

    id: NotRequired[str]
    name: NotRequired[str]
    description: NotRequired[str]
    embedding: NotRequired[EmbeddingModel]
    indexing_technique: NotRequired[Literal["high_quality", "economy"]]
    retrieval: NotRequired[Retrieval]


class DatasetSummary(TypedDict):
    """A dataset in a list, with counts."""

    id: str
    name: str
    description: str
    indexing_technique: Literal["high_quality", "economy"]
    embedding: EmbeddingModel | None
    retrieval: Retrieval
    created_at: float
    """Unix seconds."""
    version: int
    documents: int
    indexing: int
    segments: int
    word_count: int


class Datasets(TypedDict):
    """All of `DatasetSummary`."""

    data: list[DatasetSummary]


class Deliveries(TypedDict):
    """The notices of an app."""

    waiting: int
    """How many wait."""
    data: list[WaitingNotice]
    """The first of those that wait, the next one first."""
    given_up: list[GivenUpNotice]
    """Newest first."""


class Document(TypedDict):
    """A document. `status` is that of its newest version."""

    id: str
    name: str
    status: Literal["waiting", "indexing", "completed", "error"]
    searchable: bool
    segments: int
    data_source_type: NotRequired[str]
    doc_metadata: NotRequired[dict[str, Any]]
    enabled: NotRequired[bool]
    word_count: NotRequired[int]
    embedding: NotRequired[EmbeddingModel | None]
    created_at: NotRequired[float]
    """Unix seconds."""
    updated_at: NotRequired[float]
    """Unix seconds."""
    indexing: NotRequired[Indexing]


class DocumentDetail(TypedDict):
    """A document with its first segments."""

    id: str
    name: str
    status: Literal["waiting", "indexing", "completed", "error"]
    searchable: bool
    segments: int
    content: list[dict[str, Any]]
    data_source_type: NotRequired[str]
    doc_metadata: NotRequired[dict[str, Any]]
    enabled: NotRequired[bool]
    word_count: NotRequired[int]
    embedding: NotRequired[EmbeddingModel | None]
    created_at: NotRequired[float]
    """Unix seconds."""
    updated_at: NotRequired[float]
    """Unix seconds."""
    indexing: NotRequired[Indexing]


class DocumentRequest(TypedDict, closed=True):
    """A document: `text` or `segments`."""

    name: str
    id: NotRequired[str]
    text: NotRequired[str]
    split: NotRequired[Split]
    segments: NotRequired[list[SegmentRequest]]
    doc_metadata: NotRequired[dict[str, Any]]
    data_source_type: NotRequired[str]


class Entries(TypedDict):
    """All of `Entry`."""

    data: list[Entry]


class Error(TypedDict):
    """The body of every error."""

    code: str
    message: str
    status: int
    diagnostics: NotRequired[list[Diagnostic]]
    """The problems of a refused workflow."""
    errors: NotRequired[list[str]]
    """The reasons why an answer to a pause does not fit."""
    run_status: NotRequired[Status]
    profiles: NotRequired[list[str | MissingProfile]]
    """Profiles that do not exist, or that use the entry."""
    error_type: NotRequired[str]
    """Of `unknown_profile`."""
    run: NotRequired[str]
    """A run that uses the version."""
    library: NotRequired[list[str]]
    """Library nodes that use the entry."""
    params: NotRequired[str]
    """The name of the field that is wrong."""
    run_id: NotRequired[str]
    """The run whose durability is not known."""
    durability: NotRequired[str]
    """`unknown`: it was not reached in time."""
    error: NotRequired[str]
    """Of webhooks: `Bad Request`, as on Dify."""


class Imported(TypedDict):
    """A run that begins where another was."""

    id: str
    status: Status


class Key(TypedDict):
    """A key of an app or of datasets, without the key itself."""

    id: str
    app: str | None
    name: str | None
    scope: Literal["app", "datasets"]
    label: str | None
    scopes: list[Literal["run", "read", "files", "forms"]] | None
    """What a key of an app may do; null for a key of datasets."""
    created_at: float | None
    """Unix seconds."""
    expires_at: float | None
    """Unix seconds."""
    last_used_at: float | None
    """Unix seconds, about a minute exact."""
    first: bool
    """Made with its app."""
    revoked_at: float | None
    """Unix seconds."""
    spent: Spending
    today: Spending
    budget: Budget | None
    limits: LimitsInForce
    exceeded: str | None
    """Why it may spend nothing more."""


class Keys(TypedDict):
    """All of `Key`."""

    data: list[Key]


class Plugin(TypedDict):
    """A plugin in one version, installed for all workers."""

    id: str
    """`author/name:version`."""
    author: str
    name: str
    version: str
    sha256: str
    """Of its files."""
    bytes: int
    """The size of its package."""
    in_files: NotRequired[bool]
    """The storage of files has its package, not Redis."""
    signature: str
    permissions: list[str]
    """What it asks to be allowed, in words."""
    providers: list[dict[str, Any]]
    """Its providers of tools: `name`, `tools`, and `credentials`, the fields of their form."""
    datasources: NotRequired[list[dict[str, Any]]]
    """Its providers of datasources, in the same form."""
    models: NotRequired[list[dict[str, Any]]]
    """Its providers of models: `name`, `kinds`, `described` (names of models by kind), `customizable`, and `credentials` and `model_credentials`, the fields of their forms."""
    strategies: NotRequired[list[dict[str, Any]]]
    """Its providers of agent strategies: `name` and `strategies`."""
    others: list[str]
    """What else it offers, which does not run here."""
    created_at: float
    """Unix seconds."""
    updated_at: float
    """Unix seconds."""
    workers: list[PluginOnWorker]


class Plugins(TypedDict):
    """All of `Plugin`."""

    data: list[Plugin]


class PublishedApp(TypedDict):
    """The answer to a publication. The key is shown once."""

    id: str
    name: str
    mode: str
    version: str
    """SHA-256 of the workflow."""
    workflow_id: str
    """The version as a UUID."""
    key: str | None
    """Null for a new version of an app."""
    key_id: str | None
    unchanged: bool
    """The version was the current one before."""
    warnings: list[Diagnostic]
    triggers: NotRequired[list[PublishedTrigger]]


class Retried(TypedDict):
    """The answer to the retry of a dead letter: a new run (of a job) or a fact that is applied again."""

    id: str
    status: NotRequired[Status]
    retry_of: NotRequired[str]
    begins_at: NotRequired[str]
    accepted: NotRequired[bool]
    letter: NotRequired[str]


class RunNode(TypedDict):
    """A node of a run, once for each frame."""

    id: str
    frame: str
    """Empty for the root."""
    title: str
    type: str
    status: str
    attempt: int
    started_at: float | None
    """Unix seconds."""
    finished_at: float | None
    """Unix seconds."""
    job: str | None
    delivery: int | None
    waits: Wait | None
    error: str | None
    worker: str | None
    failures: int
    parked: str | None
    tokens: int
    price: str | None
    currency: str | None
    handle: str | None
    parent_node_id: NotRequired[str]
    inputs: NotRequired[dict[str, Any] | None]
    """With `values=true`."""
    outputs: NotRequired[dict[str, Any] | None]
    """With `values=true`."""


class RunSummary(TypedDict):
    """A run in a list. Counts are null before it has ended."""

    id: str
    workflow: str
    mode: str
    app: str | None
    version: str
    status: Status
    user: str | None
    error: str | None
    created_at: float
    """Unix seconds."""
    started_at: float | None
    """Unix seconds."""
    finished_at: float | None
    """Unix seconds."""
    elapsed_time: float | None
    total_steps: int | None
    total_tokens: int | None
    total_price: str | None
    currency: str | None
    exceptions_count: int | None
    warnings_count: int
    key: str | None
    labels: NotRequired[dict[str, str]]
    caller: Caller | None
    shard: int


class Runs(TypedDict):
    """A page of `RunSummary`."""

    data: list[RunSummary]
    next: str | None
    """Where the next page begins; null at the end."""
    scanned: NotRequired[int]
    """The number of runs that were looked at. A page may be short, or empty, and still have a `next`."""
    total: NotRequired[int]
    """With `total=true`: the number of runs that fit, if an index knows it."""
    at_least: NotRequired[int]
    """With `total=true`, if no index knows the number: so many exist at least."""


class SubmitRequest(TypedDict, closed=True):
    """A run to begin. `app` or `workflow` is required."""

    app: NotRequired[str]
    """The id of an app."""
    workflow: NotRequired[str]
    """The text of a workflow file."""
    inputs: NotRequired[dict[str, Any]]
    files: NotRequired[list[dict[str, Any]]]
    root: NotRequired[str]
    sys: NotRequired[dict[str, Any]]
    query: NotRequired[str]
    conversation: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, str]]
    """Texts by which the run is found again."""
    durability: NotRequired[Literal["memory", "replicated", "fsync"]]
    """What must have happened before the answer; `scheduler.durability` by default."""
    conversation_id: NotRequired[str]
    memory: NotRequired[list[Turn]]
    commands: NotRequired[list[Breakpoint]]
    call_depth: NotRequired[int]
    user: NotRequired[str]
    tenant_id: NotRequired[str]
    """Of the host, as the next five: a system variable of the run, and a field by which it is found."""
    app_id: NotRequired[str]
    workflow_id: NotRequired[str]
    user_id: NotRequired[str]
    """The user, unless `user` names another."""
    user_from: NotRequired[str]
    invoke_from: NotRequired[str]
    max_steps: NotRequired[int]
    """The option of this name, as the next three: `options` wins."""
    max_execution_steps: NotRequired[int]
    max_execution_time: NotRequired[int]
    """Seconds."""
    max_execution_time_s: NotRequired[int]
    config: NotRequired[HostConfig]
    options: NotRequired[RunOptions]


class BulkRetry(TypedDict):
    """The result of one request; repeat it with `before` until `next` is null."""

    matched: int
    retried: list[Retried]
    refused: list[RefusedLetter]
    next: str | None


class DatasetDetail(TypedDict):
    """A dataset with its documents."""

    id: str
    name: str
    description: str
    indexing_technique: Literal["high_quality", "economy"]
    embedding: EmbeddingModel | None
    retrieval: Retrieval
    created_at: float
    """Unix seconds."""
    version: int
    documents: list[Document]


class Run(TypedDict):
    """A run with its nodes."""

    id: str
    workflow: str
    mode: str
    app: str | None
    version: str
    status: Status
    user: str | None
    error: str | None
    created_at: float
    """Unix seconds."""
    started_at: float | None
    """Unix seconds."""
    finished_at: float | None
    """Unix seconds."""
    elapsed_time: float | None
    total_steps: int | None
    total_tokens: int | None
    total_price: str | None
    currency: str | None
    exceptions_count: int | None
    warnings_count: int
    key: str | None
    labels: NotRequired[dict[str, str]]
    caller: Caller | None
    shard: int
    working_time: float
    wasted_tokens: int
    wasted_price: str | None
    wasted_currency: str | None
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    conversation: dict[str, Any]
    pauses: list[Pause]
    warnings: list[Warning]
    nodes: list[RunNode]
    models: list[ModelSpending]
    calls: list[Call]
    calls_count: int
    values_complete: NotRequired[bool]
    """With `values=true`."""
    lists: NotRequired[dict[str, MessageListSummary]]
    """Only of a run with lists of messages."""
