//! The `moderation` node: asks OpenAI's moderation or an API extension, and gives its answer as the output `result`.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::moderation::{ModerationData, Order, failure};
use tidemill_common::value::{Segment, Variables};

use crate::outside::extensions::Extensions;
use crate::outside::providers::Providers;
use crate::outside::providers::profile::ModelKind;

/// Runs the node. A failure is part of the result.
pub(super) async fn run(
    data: &ModerationData,
    variables: &(dyn Variables + Send + Sync),
    (providers, extensions, run): (&Providers, &Extensions, Option<RunId>),
) -> NodeResult {
    let result = match data.order(variables) {
        Err(failure) => Err(failure),
        Ok(Order::OpenAi { provider, model, text }) => {
            match providers.model_for((&provider, &model), ModelKind::Moderation, run).await {
                Ok(model) => {
                    model.moderate(&text).await.map(|flagged| json!({"flagged": flagged})).map_err(Into::into)
                }
                Err(error) => Err(error.into()),
            }
        }
        Ok(Order::Api { extension, point, params }) => {
            extensions.ask(&extension, &point, &params).await.map_err(failure)
        }
    };
    match result {
        Ok(result @ Json::Object(_)) => NodeResult::outputs(vec![("result".into(), Segment::infer(result))]),
        Ok(_) => NodeResult::failed(failure("the answer is not an object")),
        Err(failure) => NodeResult::failed(failure),
    }
}
