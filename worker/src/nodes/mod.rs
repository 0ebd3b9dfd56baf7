//! The node types that need the outside world, one file per type; their configuration is in `tidemill-common`. The
//! table maps node types to executors.

pub mod agent;
pub(crate) mod approval;
pub mod code;
pub mod document_extractor;
pub mod http_request;
pub mod knowledge_index;
pub mod knowledge_retrieval;
pub mod llm;
#[cfg(test)]
mod mock_server;
pub mod model_files;
#[cfg(test)]
mod model_tests;
pub mod moderation;
pub mod parameter_extractor;
pub mod profile_llm;
pub mod question_classifier;
pub mod speech;
pub mod tool;

use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::nodes::{NodeData, NodeKind, NodeResult};
use tidemill_sandbox::Owner;

use self::model_files::FileStore;
use crate::attempt::executor::{Attempt, AttemptName, Executor, NodeExecutor};
use crate::outside::calls::prepare::Around;
use crate::outside::calls::run;
use crate::outside::knowledge::models::Models;

/// One row per node type that can run.
pub static EXECUTORS: &[(NodeKind, Executor)] = &[
    (NodeKind::Start, Executor::Pure),
    (NodeKind::TriggerWebhook, Executor::Pure),
    (NodeKind::TriggerSchedule, Executor::Pure),
    (NodeKind::TriggerPlugin, Executor::Pure),
    (NodeKind::End, Executor::Pure),
    (NodeKind::Answer, Executor::Pure),
    (NodeKind::IfElse, Executor::Pure),
    (NodeKind::TemplateTransform, Executor::Pure),
    (NodeKind::VariableAggregator, Executor::Pure),
    (NodeKind::HumanInput, Executor::Pure),
    (NodeKind::UserInteraction, Executor::Pure),
    (NodeKind::Assigner, Executor::Pure),
    (NodeKind::Llm, Executor::Outside(&Llm)),
    (NodeKind::QuestionClassifier, Executor::Outside(&QuestionClassifier)),
    (NodeKind::ParameterExtractor, Executor::Outside(&ParameterExtractor)),
    (NodeKind::HttpRequest, Executor::Outside(&HttpRequest)),
    (NodeKind::Tool, Executor::Outside(&Tool)),
    (NodeKind::Agent, Executor::Outside(&Agent)),
    (NodeKind::KnowledgeRetrieval, Executor::Outside(&KnowledgeRetrieval)),
    (NodeKind::Code, Executor::Outside(&Code)),
    (NodeKind::ListOperator, Executor::Pure),
    (NodeKind::DocumentExtractor, Executor::Outside(&DocumentExtractor)),
    (NodeKind::Iteration, Executor::Pure),
    (NodeKind::IterationStart, Executor::Pure),
    (NodeKind::Loop, Executor::Pure),
    (NodeKind::LoopStart, Executor::Pure),
    (NodeKind::LoopEnd, Executor::Pure),
    (NodeKind::Datasource, Executor::Pure),
    (NodeKind::ContextProcessor, Executor::Pure),
    (NodeKind::KnowledgeIndex, Executor::Outside(&KnowledgeIndex)),
    (NodeKind::Speech, Executor::Outside(&Speech)),
    (NodeKind::Moderation, Executor::Outside(&Moderation)),
    (NodeKind::Choice, Executor::Pure),
    (NodeKind::Empty, Executor::Outside(&Step)),
    (NodeKind::Summary, Executor::Outside(&Step)),
    (NodeKind::Facts, Executor::Outside(&Step)),
    (NodeKind::Slot, Executor::Outside(&Step)),
    (NodeKind::Api, Executor::Outside(&Step)),
    (NodeKind::Sql, Executor::Outside(&Step)),
    (NodeKind::Call, Executor::Outside(&Step)),
];

struct Llm;

#[async_trait::async_trait]
impl NodeExecutor for Llm {
    fn streamed_output(&self) -> Option<&'static str> {
        Some("text")
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        if let NodeData::Step(_) = &attempt.node.data {
            return Step.run(attempt).await;
        }
        let Attempt { node, variables, options, providers, http, files, name, .. } = attempt;
        let Attempt { journal, on_delta, on_thought, tools, prompt_bytes_max, .. } = attempt;
        if let NodeData::ProfileLlm(data) = &node.data {
            let choices = options.choices.as_deref();
            let auto_approved = choices.and_then(|choices| choices.auto_approved_tools.as_deref());
            let tool_access =
                profile_llm::ToolAccess { tools, http, files, run: &name.run, journal, auto_approved };
            let execution = name.execution;
            let means = profile_llm::Means {
                providers,
                tool_access,
                execution,
                prompt_bytes_max,
                on_delta,
                on_thought,
            };
            return profile_llm::run(data, node, variables, means).await;
        }
        let NodeData::Llm(data) = &node.data else { return mistaken(node.kind) };
        let undefined = options.template_undefined;
        let emit = |what, data| journal.emit(vec![(what, data)]);
        let warn = |warning| journal.warn(warning);
        let file_store = FileStore { run: &name.run, http, files };
        let means = llm::Means {
            undefined,
            providers,
            waiter: journal,
            file_store,
            on_delta,
            on_thought,
            warn: &warn,
            emit: &emit,
        };
        llm::run(data, node, variables, means).await
    }
}

/// Nodes that run a call.
struct Step;

#[async_trait::async_trait]
impl NodeExecutor for Step {
    fn streamed_output(&self) -> Option<&'static str> {
        Some("text")
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, graph, variables, options, name, journal, on_delta, .. } = attempt;
        let Attempt { providers, http, files, tools, calls, .. } = attempt;
        let NodeData::Step(data) = &node.data else { return mistaken(node.kind) };
        let around =
            Around { node, graph, variables, options, providers, http, files, tools, calls, journal, name };
        run::run(data, around, on_delta).await
    }
}

struct QuestionClassifier;

#[async_trait::async_trait]
impl NodeExecutor for QuestionClassifier {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, journal, .. } = attempt;
        let NodeData::QuestionClassifier(data) = &node.data else { return mistaken(node.kind) };
        let warn = |warning| journal.warn(warning);
        question_classifier::run(data, node, variables, providers, journal, &warn).await
    }
}

struct ParameterExtractor;

#[async_trait::async_trait]
impl NodeExecutor for ParameterExtractor {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, options, providers, journal, .. } = attempt;
        let NodeData::ParameterExtractor(data) = &node.data else { return mistaken(node.kind) };
        let requires_all = options.dify_ways.extractor_requires_all;
        let warn = |warning| journal.warn(warning);
        parameter_extractor::run(data, node, variables, providers, journal, &warn, requires_all).await
    }
}

struct HttpRequest;

#[async_trait::async_trait]
impl NodeExecutor for HttpRequest {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, http, files, name, answers: rules, .. } = attempt;
        let NodeData::HttpRequest(data) = &node.data else { return mistaken(node.kind) };
        let key = node.settings.idempotency_key.then(|| name.idempotency_key());
        let (run, idempotency_key) = (&name.run, key.as_deref());
        let means = http_request::Means { http, files, run, idempotency_key, rules };
        http_request::run(data, node, variables, means).await
    }
}

struct Agent;

#[async_trait::async_trait]
impl NodeExecutor for Agent {
    fn streamed_output(&self) -> Option<&'static str> {
        Some("text")
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, tools, http, files, journal, name, on_piece, .. } = attempt;
        let Attempt { options, on_thought, flush, .. } = attempt;
        let NodeData::Agent(data) = &node.data else { return mistaken(node.kind) };
        let (run, execution) = (&name.run, name.execution);
        let auto_approved = options.choices.as_deref().and_then(|it| it.auto_approved_tools.as_deref());
        let means = agent::Means {
            providers,
            tools,
            http,
            files,
            run,
            execution,
            journal,
            on_piece,
            flush,
            auto_approved,
        };
        agent::run(data, node, variables, means, on_thought).await
    }
}

struct KnowledgeRetrieval;

#[async_trait::async_trait]
impl NodeExecutor for KnowledgeRetrieval {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, knowledge, journal, .. } = attempt;
        let NodeData::KnowledgeRetrieval(data) = &node.data else { return mistaken(node.kind) };
        let models = Models::new(providers, journal);
        knowledge_retrieval::run(data, node, variables, &models, knowledge).await
    }
}

struct KnowledgeIndex;

#[async_trait::async_trait]
impl NodeExecutor for KnowledgeIndex {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, knowledge, journal, name, .. } = attempt;
        let NodeData::KnowledgeIndex(data) = &node.data else { return mistaken(node.kind) };
        let AttemptName { run, execution, .. } = name;
        let means = knowledge_index::Means { providers, knowledge, journal, run, execution };
        knowledge_index::run(data, node, variables, means).await
    }
}

struct Speech;

#[async_trait::async_trait]
impl NodeExecutor for Speech {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, files, journal, name, .. } = attempt;
        let NodeData::Speech(data) = &node.data else { return mistaken(node.kind) };
        let means = speech::Means { providers, waiter: journal, files, run: &name.run };
        speech::run(data, variables, means).await
    }
}

struct Moderation;

#[async_trait::async_trait]
impl NodeExecutor for Moderation {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, providers, extensions, .. } = attempt;
        let NodeData::Moderation(data) = &node.data else { return mistaken(node.kind) };
        moderation::run(data, variables, (providers, extensions)).await
    }
}

struct Tool;

#[async_trait::async_trait]
impl NodeExecutor for Tool {
    fn streamed_output(&self) -> Option<&'static str> {
        Some("text")
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, http, files, name, journal, tools, on_piece, .. } = attempt;
        let NodeData::Tool(data) = &node.data else { return mistaken(node.kind) };
        let means = tool::Means { tools, http, files, run: &name.run, journal: Some(journal), on_piece };
        tool::run(data, node, variables, means).await
    }
}

struct Code;

#[async_trait::async_trait]
impl NodeExecutor for Code {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, options, code, app, name, .. } = attempt;
        let NodeData::Code(data) = &node.data else { return mistaken(node.kind) };
        let owner = Owner { app, run: &name.run.to_string() };
        code.run(data, variables, owner, options.dify_ways.code_texts_become_numbers).await
    }
}

struct DocumentExtractor;

#[async_trait::async_trait]
impl NodeExecutor for DocumentExtractor {
    fn streamed_output(&self) -> Option<&'static str> {
        None
    }
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult {
        let Attempt { node, variables, http, files, documents, app, name, .. } = attempt;
        let NodeData::DocumentExtractor(data) = &node.data else { return mistaken(node.kind) };
        let run = name.run.to_string();
        let means = document_extractor::Means { http, files, owner: Owner { app, run: &run } };
        documents.run(data, variables, means).await
    }
}

/// The failure for a wrong row in the table.
fn mistaken(kind: NodeKind) -> NodeResult {
    let message = format!("node type {} has the configuration of another type", kind.wire());
    NodeResult::failed(NodeFailure::new(EngineErrorType::Engine.name(), message))
}

#[cfg(test)]
mod tests;
