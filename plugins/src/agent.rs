//! Invokes agent strategies. They answer with messages as tools do, and ask back for models and tools.

use std::sync::Arc;

use serde_json::json;
use tidemill_common::value::JsonMap;

use crate::install::Installed;
use crate::process::pool::{Invocation, Origin, Plugins};
use crate::process::{Answers, Offered, ProcessError};
use crate::tool::Results;

/// An invocation of an agent strategy.
pub struct AgentCall<'a> {
    pub plugins: &'a Plugins,
    pub installed: &'a Arc<Installed>,
    pub provider: &'a str,
    pub strategy: &'a str,
    /// The person for whom it is invoked.
    pub user: String,
    /// The app.
    pub owner: String,
    pub answers: Arc<dyn Answers>,
    pub offered: Offered,
    pub origin: Origin,
}

impl AgentCall<'_> {
    /// Begins the invocation.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn invoke(&self, parameters: &JsonMap) -> Result<Results, ProcessError> {
        let request = json!({
            "type": "agent_strategy", "action": "invoke_agent_strategy", "user_id": self.user,
            "agent_strategy_provider": self.provider, "agent_strategy": self.strategy,
            "agent_strategy_params": parameters,
        });
        let invocation = Invocation {
            request,
            owner: self.owner.clone(),
            // A strategy has no credentials: its tools and models are called by the host.
            secrets: Vec::new(),
            answers: self.answers.clone(),
            offered: self.offered.clone(),
            origin: self.origin.clone(),
        };
        let session = self.plugins.open(self.installed, invocation).await?;
        Ok(Results::of(session, self.plugins))
    }
}
