//! Prepares a call: finds it, merges its parameters, and builds its input.

use serde_json::{Value as Json, json};
use tidemill_common::files::Files;
use tidemill_common::graph::{Graph, Node};
use tidemill_common::language::Language;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::step::background::{self, Background};
use tidemill_common::nodes::step::{CallError, Secrets, StepData, merged, params};
use tidemill_common::slots::with_overrides;
use tidemill_common::value::{JsonMap, Variables};

use crate::attempt::executor::AttemptName;
use crate::attempt::journal::{EntryReport, EntryStart, INIT, Journal};
use crate::outside::calls::run::{INPUT, STEP_NODE};
use crate::outside::calls::step_events::StepEvents;
use crate::outside::calls::{CallContext, CallRef, Calls, Made, Resolved, resolve};
use crate::outside::http::Http;
use crate::outside::providers::Providers;
use crate::outside::tools::Tools;

/// The environment of a step.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) node: &'a Node,
    pub(crate) graph: &'a Graph,
    pub(crate) variables: &'a (dyn Variables + Send + Sync),
    pub(crate) options: &'a RunOptions,
    pub(crate) providers: &'a Providers,
    pub(crate) http: &'a Http,
    pub(crate) files: &'a dyn Files,
    pub(crate) tools: &'a Tools,
    pub(crate) calls: &'a Calls,
    pub(crate) journal: &'a Journal,
    pub(crate) name: AttemptName,
}

/// A step before its call is made.
pub(crate) struct Prepared<'a> {
    around: Around<'a>,
    data: &'a StepData,
    pub(crate) found: Resolved,
    pub(crate) language: Language,
    pub(crate) background: Background,
    pub(crate) secrets: Secrets,
    /// The merged parameters, then the call's input built from them.
    pub(crate) input: JsonMap,
    pub(crate) made: Made,
    pub(crate) step_events: StepEvents,
    /// The `Idempotency-Key` of the call.
    pub(crate) key: Box<str>,
    /// True if an earlier worker began this call and recorded no result.
    pub(crate) possible_duplicate: bool,
}

/// Prepares a step.
///
/// # Errors
/// The call does not exist, or its input is invalid.
pub(crate) async fn prepare<'a>(data: &'a StepData, around: Around<'a>) -> Result<Prepared<'a>, CallError> {
    with(resolve(data.id(), around.calls).await?, data, around).await
}

/// As [`prepare`], with a call already found. An input that an earlier stage has built is used as it is, because a call
/// builds its input only once.
///
/// # Errors
/// The input is invalid.
pub(crate) async fn with<'a>(
    found: Resolved,
    data: &'a StepData,
    around: Around<'a>,
) -> Result<Prepared<'a>, CallError> {
    let mut prepared = drafted(found, data, around);
    match made(around.variables) {
        Some(input) => prepared.input = input,
        None => prepared.init().await?,
    }
    Ok(prepared)
}

/// The input built by an earlier stage, if any.
pub(crate) fn made(variables: &(dyn Variables + Send + Sync)) -> Option<JsonMap> {
    let found = variables.found(&[STEP_NODE.to_owned(), INPUT.to_owned()])?;
    found.value.as_object().cloned()
}

/// Creates a step whose input is still the merged parameters; call [`Prepared::init`] next.
pub(crate) fn drafted<'a>(found: Resolved, data: &'a StepData, around: Around<'a>) -> Prepared<'a> {
    let language = data.language.unwrap_or_else(|| around.options.choices().language);
    let mut secrets = Secrets::default();
    let question = data.filling.question.as_deref();
    let background = background::read(around.variables, question, data.history_size(), &mut secrets);
    let given = params::resolve(&data.params, around.variables, &mut secrets, found.call.templates());
    let nothing = JsonMap::new();
    let known = found.library.as_ref().map_or(&nothing, |library| &library.known_params);
    let params = merged(known, given);
    let step_events = step_events(&found, around, language);
    let made = Made::default();
    let (key, possible_duplicate) = (around.name.idempotency_key().into(), false);
    Prepared {
        around,
        data,
        found,
        language,
        background,
        secrets,
        input: params,
        made,
        step_events,
        key,
        possible_duplicate,
    }
}

impl<'a> Prepared<'a> {
    /// Lets the call build its input from the parameters. If that needs an outside request, it is made once: the
    /// journal keeps the answer for later deliveries and attempts.
    ///
    /// # Errors
    /// The parameters are invalid.
    pub(crate) async fn init(&mut self) -> Result<(), CallError> {
        let params = std::mem::take(&mut self.input);
        if !self.found.call.keeps_init() {
            self.input = self.found.call.init(self.context(), params).await?;
            return Ok(());
        }
        let journal = self.around.journal;
        let the_try = match journal.begin(INIT).await {
            EntryStart::Known(kept) => {
                self.input = kept.as_object().cloned().unwrap_or_default();
                return Ok(());
            }
            EntryStart::Try(the_try) => the_try,
        };
        let of_call = std::mem::replace(&mut self.key, the_try.idempotency_key.into());
        let made = self.found.call.init(self.context(), params).await;
        self.key = of_call;
        self.input = made?;
        let input = Json::Object(self.input.clone());
        journal.record_large(INIT, the_try.number, input, EntryReport::default()).await;
        Ok(())
    }

    /// The context of the call.
    pub(crate) fn context(&self) -> CallContext<'_> {
        let Around { node, graph, variables, options, providers, http, files, tools, calls, journal, name } =
            self.around;
        CallContext {
            node,
            library: self.found.library.as_deref(),
            variables,
            options,
            language: self.language,
            providers,
            http,
            tools,
            files,
            calls,
            journal,
            name,
            key: &self.key,
            graph,
            background: &self.background,
            profile_id: self.data.filling.profile_id.as_deref(),
            made: &self.made,
            step_events: &self.step_events,
            secrets: &self.secrets,
        }
    }

    /// Returns true if missing input is filled.
    pub(crate) fn fills(&self) -> bool {
        self.data.enable_filling.unwrap_or_else(|| self.found.call.enable_filling())
    }

    /// Returns true if the user sees the pieces.
    pub(crate) fn to_user(&self) -> bool {
        self.data.to_user.unwrap_or_else(|| self.found.call.to_user())
    }

    /// The schema of the input, with the overrides of the library node and the step.
    pub(crate) fn input_schema(&self) -> Json {
        let library = self.found.library.as_ref();
        let schema = self.data.filling.input_schema.clone();
        let schema = schema.or_else(|| self.made.schema()).unwrap_or_else(|| self.found.call.input_schema());
        let schema = match library {
            Some(library) => with_overrides(&schema, &library.override_input),
            None => schema,
        };
        with_overrides(&schema, &self.data.override_input)
    }

    /// The schema of the output, with its overrides; an open object if the call has none.
    pub(crate) fn output_schema(&self) -> Json {
        let schema = self.found.call.output_schema().unwrap_or_else(|| json!({"type": "object"}));
        let schema = match self.found.library.as_ref() {
            Some(library) => with_overrides(&schema, &library.override_output),
            None => schema,
        };
        with_overrides(&schema, &self.data.override_output)
    }

    /// The call and the versions used, for the record.
    pub(crate) fn record(&self) -> JsonMap {
        let mut record = JsonMap::from_iter([("call_id".to_owned(), json!(self.found.call_id))]);
        if let Some(version) = self.found.version {
            record.insert("call_version".into(), json!(version));
        }
        if let Some(library) = &self.found.library {
            record.insert("library_node".into(), json!({"id": library.id, "version": library.version}));
        }
        if self.possible_duplicate {
            record.insert("possible_duplicate".into(), json!(true));
        }
        record
    }
}

/// The sender of the step's events. It is named after the node's title, else the library node, else the call.
fn step_events(found: &Resolved, around: Around<'_>, language: Language) -> StepEvents {
    let Around { node, name, .. } = around;
    let info = found.call.info(language);
    let of_library = found.library.as_ref().map(|library| library.name.text(language).to_owned());
    let titles = [node.title.clone(), of_library.unwrap_or_default(), info.name];
    StepEvents {
        id: node.id.as_str().to_owned(),
        name: titles.into_iter().find(|name| !name.is_empty()).unwrap_or_default(),
        description: info.description,
        ty: step_type(found),
        attempt: name.number,
    }
}

/// The type of a call in events and records; lower case for built-in calls.
fn step_type(found: &Resolved) -> String {
    match &found.call {
        CallRef::BuiltIn(_) => found.call_id.to_lowercase(),
        CallRef::Registered(_) => found.call_id.clone(),
    }
}
