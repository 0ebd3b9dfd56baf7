//! API keys: what each has spent on models, and what it may spend. A key is known by its id, never by itself.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::store::{KeySpent, day_of};
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath};
use crate::budgets::KeyBudget;

/// `GET /api/v1/keys`: all keys, what they have spent in all and today (UTC), and their budgets.
///
/// # Errors
/// The store's.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let budgets: std::collections::BTreeMap<_, _> = state.store.key_budgets().await?.into_iter().collect();
    let today = day_of(state.store.time().await?);
    let mut data = Vec::new();
    for (id, app) in state.store.keys().await? {
        let name = state.store.app(&app).await?.map(|app| app.name);
        let budget = budgets.get(&id).and_then(|text| KeyBudget::read(text).ok());
        data.push(json!({
            "id": id,
            "app": app,
            "name": name,
            "spent": shown(&state.store.key_spent(&id, None).await?),
            "today": shown(&state.store.key_spent(&id, Some(&today)).await?),
            "budget": budget.map(|budget| budget.to_json()),
            "exceeded": state.submitter.budgets.exceeded(&id),
        }));
    }
    Ok(JsonBody(json!({"data": data})))
}

/// `PUT /api/v1/keys/{id}/budget`: `tokens`, `tokens_per_day`, `price`, `price_per_day`; what is absent is not bounded.
///
/// # Errors
/// 404 for an unknown key, 400 for what is no budget.
pub async fn set_budget(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    known(&state, &id).await?;
    let budget = KeyBudget::of(&body.object()?).map_err(ApiError::invalid_param)?;
    let stored = budget.to_json();
    state.store.put_key_budget(&id, Some(&stored.to_string())).await?;
    tracing::info!(key = id, budget = %stored, "budget set");
    Ok(JsonBody(stored))
}

/// `DELETE /api/v1/keys/{id}/budget`: nothing bounds it any more.
///
/// # Errors
/// 404 for an unknown key.
pub async fn drop_budget(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
) -> Result<StatusCode, ApiError> {
    known(&state, &id).await?;
    state.store.put_key_budget(&id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn known(state: &ApiState, id: &str) -> Result<(), ApiError> {
    let is_known = state.store.keys().await?.iter().any(|(known, _)| known == id);
    if is_known { Ok(()) } else { Err(ApiError::not_found(format!("there is no key {id}"))) }
}

fn shown(spent: &KeySpent) -> Json {
    let prices: JsonMap =
        spent.prices().map(|(currency, price)| (currency.to_string(), price.into())).collect();
    let [calls, prompt, completion, tokens] =
        ["calls", "prompt_tokens", "completion_tokens", "tokens"].map(|name| spent.get(name));
    json!({"calls": calls, "prompt_tokens": prompt, "completion_tokens": completion, "tokens": tokens, "price": prices})
}
