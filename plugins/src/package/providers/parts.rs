//! What of a package runs here, and what does not.

use crate::package::Package;

impl Package {
    /// Tests whether a worker can do something with it.
    pub fn has_parts_that_run(&self) -> bool {
        let providers = &self.providers;
        let none = providers.tools.is_empty()
            && providers.models.is_empty()
            && providers.agent_strategies.is_empty()
            && providers.datasources.is_empty();
        !none
    }

    /// A sentence for each part that does not run.
    pub fn parts_that_do_not_run(&self) -> Vec<String> {
        let providers = &self.providers;
        let mut sentences = Vec::new();
        for (is_there, sentence) in [
            (
                !providers.triggers.is_empty(),
                "Its triggers do not run here: webhooks, schedules and the API start runs.",
            ),
            (
                !providers.endpoints.is_empty(),
                "Its endpoints do not run here: no worker serves HTTP for a plugin.",
            ),
        ] {
            if is_there {
                sentences.push(sentence.to_owned());
            }
        }
        let tools = providers.tools.iter().map(|it| (&it.name, it.has_oauth, it.credentials.is_empty()));
        let datasources = providers.datasources.iter();
        let datasources = datasources.map(|it| (&it.name, it.has_oauth, it.credentials.is_empty()));
        for (name, _, has_no_form) in tools.chain(datasources).filter(|(_, has_oauth, _)| *has_oauth) {
            let instead = if has_no_form {
                "it takes no other credentials"
            } else {
                "give its credentials with `tidemill plugins config`"
            };
            sentences.push(format!("The login at a server (OAuth) of {name} does not run here: {instead}."));
        }
        sentences
    }
}
