//! Parses `data` of any node type, and lists the variables that a configuration mentions.

use super::trigger_plugin::TriggerPluginData;
use super::trigger_schedule::TriggerScheduleData;
use super::trigger_webhook::TriggerWebhookData;
use super::{
    NodeData, NodeKind, agent, code, context_processor, datasource, http_request, human_input, iteration,
    knowledge_index, knowledge_retrieval, loop_,
};
use super::{
    answer, assigner, choice, document_extractor, end, if_else, list_operator, llm, moderation,
    parameter_extractor, question_classifier, speech, start, step, template_transform, tool,
    user_interaction, variable_aggregator,
};
use crate::dsl::Problems;
use tidemill_base::value::JsonMap;

/// Reads the configuration of a node. Reports problems and returns `None` when it cannot be used.
pub(crate) fn parse_data(kind: NodeKind, data: &JsonMap, problems: &mut Problems) -> Option<NodeData> {
    match kind {
        NodeKind::Start => start::StartData::parse(data, problems).map(NodeData::Start),
        NodeKind::End => end::EndData::parse(data, problems).map(NodeData::End),
        NodeKind::Answer => answer::AnswerData::parse(data, problems).map(NodeData::Answer),
        NodeKind::IfElse => if_else::IfElseData::parse(data, problems).map(NodeData::IfElse),
        NodeKind::TemplateTransform => {
            template_transform::TemplateTransformData::parse(data, problems).map(NodeData::TemplateTransform)
        }
        NodeKind::VariableAggregator => variable_aggregator::VariableAggregatorData::parse(data, problems)
            .map(NodeData::VariableAggregator),
        NodeKind::Assigner => assigner::AssignerData::parse(data, problems).map(NodeData::Assigner),
        NodeKind::Llm if step::is_llm_step(data) => step_of(kind, data, problems),
        NodeKind::Llm if llm::profile::is_form_of(data) => {
            llm::profile::ProfileData::parse(data, problems).map(|data| NodeData::ProfileLlm(Box::new(data)))
        }
        NodeKind::Llm => llm::LlmData::parse(data, problems).map(|data| NodeData::Llm(Box::new(data))),
        NodeKind::QuestionClassifier => question_classifier::QuestionClassifierData::parse(data, problems)
            .map(|data| NodeData::QuestionClassifier(Box::new(data))),
        NodeKind::ParameterExtractor => parameter_extractor::ParameterExtractorData::parse(data, problems)
            .map(|data| NodeData::ParameterExtractor(Box::new(data))),
        NodeKind::HttpRequest => http_request::HttpRequestData::parse(data, problems)
            .map(|data| NodeData::HttpRequest(Box::new(data))),
        NodeKind::Code => code::CodeData::parse(data, problems).map(|data| NodeData::Code(Box::new(data))),
        NodeKind::Tool => tool::ToolData::parse(data, problems).map(|data| NodeData::Tool(Box::new(data))),
        NodeKind::ListOperator => list_operator::ListOperatorData::parse(data, problems)
            .map(|data| NodeData::ListOperator(Box::new(data))),
        NodeKind::DocumentExtractor => {
            document_extractor::DocumentExtractorData::parse(data, problems).map(NodeData::DocumentExtractor)
        }
        NodeKind::Iteration => iteration::IterationData::parse(data, problems).map(NodeData::Iteration),
        NodeKind::IterationStart => Some(NodeData::IterationStart),
        NodeKind::Loop => loop_::LoopData::parse(data, problems).map(|data| NodeData::Loop(Box::new(data))),
        NodeKind::LoopStart => Some(NodeData::LoopStart),
        NodeKind::LoopEnd => Some(NodeData::LoopEnd),
        NodeKind::HumanInput => human_input::HumanInputData::parse(data, problems)
            .map(|data| NodeData::HumanInput(Box::new(data))),
        NodeKind::UserInteraction => user_interaction::UserInteractionData::parse(data, problems)
            .map(|data| NodeData::UserInteraction(Box::new(data))),
        NodeKind::Datasource => datasource::DatasourceData::parse(data, problems).map(NodeData::Datasource),
        NodeKind::KnowledgeIndex => {
            knowledge_index::KnowledgeIndexData::parse(data, problems).map(NodeData::KnowledgeIndex)
        }
        NodeKind::Moderation => moderation::ModerationData::parse(data, problems).map(NodeData::Moderation),
        NodeKind::Speech => speech::SpeechData::parse(data, problems).map(NodeData::Speech),
        NodeKind::TriggerWebhook => {
            TriggerWebhookData::parse(data, problems).map(|data| NodeData::TriggerWebhook(Box::new(data)))
        }
        NodeKind::TriggerSchedule => {
            TriggerScheduleData::parse(data, problems).map(|data| NodeData::TriggerSchedule(Box::new(data)))
        }
        NodeKind::TriggerPlugin => {
            TriggerPluginData::parse(data, problems).map(|data| NodeData::TriggerPlugin(Box::new(data)))
        }
        NodeKind::Agent => {
            agent::AgentData::parse(data, problems).map(|data| NodeData::Agent(Box::new(data)))
        }
        NodeKind::ContextProcessor => context_processor::ContextProcessorData::parse(data, problems)
            .map(|data| NodeData::ContextProcessor(Box::new(data))),
        NodeKind::KnowledgeRetrieval => knowledge_retrieval::KnowledgeRetrievalData::parse(data, problems)
            .map(|data| NodeData::KnowledgeRetrieval(Box::new(data))),
        NodeKind::Choice => {
            choice::ChoiceData::parse(data, problems).map(|data| NodeData::Choice(Box::new(data)))
        }
        NodeKind::Empty
        | NodeKind::Summary
        | NodeKind::Facts
        | NodeKind::Slot
        | NodeKind::Api
        | NodeKind::Sql
        | NodeKind::Call => step_of(kind, data, problems),
    }
}

fn step_of(kind: NodeKind, data: &JsonMap, problems: &mut Problems) -> Option<NodeData> {
    step::StepData::parse(kind, data, problems).map(|data| NodeData::Step(Box::new(data)))
}

/// The variables that the configuration of node `node` mentions, as (node, name), in its order. One can appear twice.
pub(crate) fn mentions_of(node: &str, data: &NodeData) -> Vec<(String, String)> {
    let mut mentions = Vec::new();
    match data {
        // A start node reads all variables, so its configuration does not say which it needs.
        NodeData::Start(data) => data.mentions(&mut mentions),
        NodeData::End(data) => data.mentions(&mut mentions),
        NodeData::Answer(data) => data.mentions(&mut mentions),
        NodeData::IfElse(data) => data.mentions(&mut mentions),
        NodeData::TemplateTransform(data) => data.mentions(&mut mentions),
        NodeData::VariableAggregator(data) => data.mentions(&mut mentions),
        NodeData::Assigner(data) => data.mentions(&mut mentions),
        NodeData::Llm(data) => data.mentions(&mut mentions),
        NodeData::ProfileLlm(data) => data.mentions(&mut mentions),
        NodeData::QuestionClassifier(data) => data.mentions(&mut mentions),
        NodeData::ParameterExtractor(data) => data.mentions(&mut mentions),
        NodeData::HttpRequest(data) => data.mentions(&mut mentions),
        NodeData::Code(data) => data.mentions(&mut mentions),
        NodeData::Tool(data) => data.mentions(&mut mentions),
        NodeData::Agent(data) => data.mentions(&mut mentions),
        NodeData::KnowledgeRetrieval(data) => data.mentions(&mut mentions),
        NodeData::ListOperator(data) => data.mentions(&mut mentions),
        NodeData::DocumentExtractor(data) => data.mentions(&mut mentions),
        NodeData::Iteration(data) => data.mentions(&mut mentions),
        NodeData::Loop(data) => data.mentions(&mut mentions),
        NodeData::HumanInput(data) => data.mentions(node, &mut mentions),
        NodeData::UserInteraction(data) => data.mentions(&mut mentions),
        NodeData::Datasource(data) => data.mentions(&mut mentions),
        NodeData::KnowledgeIndex(data) => data.mentions(&mut mentions),
        NodeData::Moderation(data) => data.mentions(&mut mentions),
        NodeData::Speech(data) => data.mentions(&mut mentions),
        NodeData::Choice(data) => data.mentions(&mut mentions),
        NodeData::Step(data) => data.mentions(&mut mentions),
        NodeData::ContextProcessor(data) => data.mentions(&mut mentions),
        NodeData::IterationStart
        | NodeData::LoopStart
        | NodeData::LoopEnd
        | NodeData::TriggerWebhook(_)
        | NodeData::TriggerSchedule(_)
        | NodeData::TriggerPlugin(_) => {}
    }
    mentions
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The paths of the reported problems.
    pub(in crate::nodes) fn paths_of(
        check: fn(&JsonMap, &mut Problems),
        data: serde_json::Value,
    ) -> Vec<String> {
        let mut problems = Problems::new();
        check(data.as_object().expect("a mapping"), &mut problems);
        problems.into_vec().into_iter().map(|problem| problem.path).collect()
    }
}
