//! Texts for people and models in two languages: names of calls, and prompts.

pub use tidemill_base::language::Text;

/// The name of the step that fills in missing input.
pub const FILLING: Text = Text { zh: "自动参数填充", en: "Automatic parameter filling" };
/// The description of that step.
pub const FILLING_DESCRIPTION: Text =
    Text { zh: "从对话中提取缺少的参数", en: "Looks for missing parameters in the conversation" };
/// The prompt for a person who is asked for the missing values.
pub const PARAMETERS_MISSING: Text = Text {
    zh: "当运行产生如下缺失参数时，请补充：",
    en: "The step needs values that are missing. Please give:",
};
/// The failure when the missing values cannot be asked for.
pub const PARAMETERS_NOT_FOUND: Text = Text {
    zh: "缺少参数，且运行无法询问用户",
    en: "parameters are missing, and this run cannot ask the user",
};
/// The reason when a person gives no values and so ends the step.
pub const PARAMETERS_NOT_GIVEN: Text =
    Text { zh: "用户没有提供缺少的参数", en: "the missing parameters were not given" };

/// The prompt for a summary.
pub const SUMMARY_PROMPT: Text = Text {
    zh: "根据给出的对话和已知事实，用不超过三句话、不超过300字总结对话。只输出总结，使用中文。",
    en: "Sum up the conversation and the facts in at most three sentences and 300 words. Answer with the summary alone, in English.",
};
/// The prompt for facts.
pub const FACTS_PROMPT: Text = Text {
    zh: "从对话中提取关于用户的事实（偏好、经历、计划、观点等）。每条事实一句话，不要推测。\
         只输出 JSON：{\"facts\": [\"事实1\", \"事实2\"]}；没有时输出 {\"facts\": []}。",
    en: "Draw facts about the user from the conversation (likes, experience, plans, opinions). One sentence each; guess \
         nothing. Answer with JSON alone: {\"facts\": [\"fact 1\", \"fact 2\"]}; with {\"facts\": []} when there are none.",
};
/// The prompt for the domains of a conversation.
pub const DOMAIN_PROMPT: Text = Text {
    zh: "提取对话所属领域的关键词，最多五个，不要重复。只输出 JSON：{\"keywords\": [\"关键词1\"]}；没有时输出 {\"keywords\": []}。",
    en: "Name the domains that the conversation is about: at most five keywords, none twice. Answer with JSON alone: \
         {\"keywords\": [\"keyword 1\"]}; with {\"keywords\": []} when there are none.",
};
/// The prompt for explaining a failure.
pub const EXPLAIN_PROMPT: Text = Text {
    zh: "工作流的一个步骤失败了。请用简短、易懂的语言向用户解释原因，并说明可以怎么做。不要编造信息。",
    en: "A step of a workflow has failed. Explain the reason to the user in a few plain words, and say what can be done. Invent nothing.",
};
/// The default system prompt of an LLM step.
pub const LLM_SYSTEM_PROMPT: Text =
    Text { zh: "你是一个乐于助人的助手。", en: "You are a helpful assistant." };
/// The default user prompt of an LLM step.
pub const LLM_USER_PROMPT: Text = Text {
    zh: "{% if context %}<context>\n{{ context }}\n</context>\n{% endif %}当前时间：{{ time }}\n问题：{{ question }}",
    en: "{% if context %}<context>\n{{ context }}\n</context>\n{% endif %}Time: {{ time }}\nQuestion: {{ question }}",
};
