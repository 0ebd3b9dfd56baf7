//! Finds the provider of a tool by the name of the tool, for nodes that name no provider. The built-in tools, the OpenAPI
//! documents and the MCP servers of the settings are searched; a service (`tools.endpoint`) cannot be, since it needs the
//! provider's name to be asked.

use tidemill_common::nodes::tool::ProviderKind;

use super::{ToolError, ToolName, Tools, builtin};

/// A provider that may have the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate<'a> {
    kind: ProviderKind,
    id: &'a str,
}

impl Tools {
    /// Returns the tool's name with its provider.
    ///
    /// # Errors
    /// No provider has a tool of this name, or several have one.
    pub(super) async fn by_tool<'a>(&'a self, name: ToolName<'a>) -> Result<ToolName<'a>, ToolError> {
        let (mut having, mut unreachable) = (Vec::new(), None);
        for candidate in self.candidates(name.provider_id) {
            let provider = ToolName {
                kind: candidate.kind,
                provider_id: candidate.id,
                provider_name: candidate.id,
                ..name
            };
            match self.list(&provider).await {
                Ok(tools) if tools.iter().any(|tool| tool.name == name.tool) => having.push(candidate),
                Ok(_) => {}
                Err(error) => unreachable = Some((candidate, error)),
            }
        }
        decide(name.tool, &having, unreachable).map(|found| ToolName {
            kind: found.kind,
            provider_id: found.id,
            provider_name: found.id,
            ..name
        })
    }

    /// The providers to search: all, or those with the name that the node gives.
    fn candidates<'a>(&'a self, provider: &'a str) -> Vec<Candidate<'a>> {
        let own = self.builtin.is_some().then(builtin::names).into_iter().flatten();
        let own = own.map(|id| Candidate { kind: ProviderKind::Builtin, id });
        let api = self.api.keys().map(|id| Candidate { kind: ProviderKind::Api, id });
        let mcp = self.mcp.keys().map(|id| Candidate { kind: ProviderKind::Mcp, id });
        let all = own.chain(api).chain(mcp);
        let wanted = builtin::short_name(provider);
        all.filter(|one| provider.is_empty() || one.id == wanted).collect()
    }
}

/// Chooses the provider. One that did not answer counts only when no other one has the tool.
fn decide<'a>(
    tool: &str,
    having: &[Candidate<'a>],
    unreachable: Option<(Candidate<'a>, ToolError)>,
) -> Result<Candidate<'a>, ToolError> {
    match (having, unreachable) {
        ([found], _) => Ok(*found),
        ([], Some((silent, error))) => Err(ToolError {
            message: format!(
                "no provider has a tool {tool}, and {} {} could not be asked: {}",
                silent.kind.name(),
                silent.id,
                error.message
            ),
            ..error
        }),
        ([], None) => Err(ToolError::unavailable(format!(
            "the node names no provider, and no provider has a tool {tool}: set provider_type and provider_id of the node, or \
             add an OpenAPI document [tools.api.NAME] or an MCP server [tools.mcp.NAME] that has it"
        ))),
        (several, _) => {
            let named: Vec<String> =
                several.iter().map(|one| format!("{} {}", one.kind.name(), one.id)).collect();
            Err(ToolError::unavailable(format!(
                "the node names no provider, and several have a tool {tool}: {}; set provider_type and provider_id of the node",
                named.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Candidate<'static> = Candidate { kind: ProviderKind::Builtin, id: "time" };
    const SEARCH: Candidate<'static> = Candidate { kind: ProviderKind::Mcp, id: "search" };

    #[test]
    fn the_only_provider_with_the_tool_is_chosen_and_every_refusal_says_what_to_set() {
        let silent = || Some((SEARCH, ToolError::unavailable("no answer").passing()));
        assert_eq!(decide("t", &[TIME], silent()), Ok(TIME));
        assert_eq!(decide("t", &[SEARCH], None), Ok(SEARCH));
        for (having, unreachable, parts) in [
            (
                vec![],
                None,
                &["no provider has a tool t", "provider_type and provider_id", "[tools.mcp.NAME]"][..],
            ),
            (vec![], silent(), &["mcp search could not be asked: no answer"]),
            (vec![TIME, SEARCH], None, &["builtin time, mcp search", "provider_type and provider_id"]),
        ] {
            let is_passing = unreachable.is_some();
            let error = decide("t", &having, unreachable).unwrap_err();
            assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
            assert_eq!(error.retryable, is_passing, "{error}");
        }
    }
}
