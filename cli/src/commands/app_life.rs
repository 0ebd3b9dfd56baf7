//! `tidemill apps show`, `disable`, `enable`, `rm`, `rm-user`, `removals`: the life of an app after it was published.

use std::time::Duration;

use serde_json::Value as Json;

use super::apps::shown;
use super::common::Common;
use crate::client::Client;
use crate::console::Console;
use crate::error::Error;
use crate::output::{json, table, text};

/// The pause between two looks at a removal.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// An app, a line for each field.
pub(super) fn render(app: &Json) -> String {
    let fields = ["id", "name", "mode", "version", "state"];
    let known = fields.into_iter().filter(|name| !app[name].is_null());
    table::pairs(&known.map(|name| (name, shown(&app[name]))).collect::<Vec<_>>())
}

/// Switches an app off or on.
pub(super) async fn switch(
    app: &str,
    verb: &str,
    common: &Common,
    console: &mut Console,
) -> Result<(), Error> {
    let app = common.client()?.switch_app(app, verb).await?;
    if common.json {
        json::whole(&app, console)?;
    } else {
        console.text(render(&app))?;
    }
    Ok(())
}

/// Shows a removal that has begun, or waits until it is done.
pub(super) async fn removed(
    removal: Json,
    wait: bool,
    common: &Common,
    console: &mut Console,
) -> Result<(), Error> {
    let mut last = removal;
    let mut is_done = false;
    if wait {
        let client = common.client()?;
        while let Some(now) = under_way(&client, &last["id"]).await? {
            last = now;
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        is_done = true;
    }
    if common.json {
        last["done"] = is_done.into();
        json::whole(&last, console)?;
    } else if is_done {
        console.text("removed\n")?;
    } else {
        console.text("removal begun; `tidemill apps removals` lists it until it is done\n")?;
    }
    Ok(())
}

async fn under_way(client: &Client, id: &Json) -> Result<Option<Json>, Error> {
    let all = client.removals().await?;
    Ok(all["data"].as_array().into_iter().flatten().find(|removal| removal["id"] == *id).cloned())
}

/// Lists removals.
pub(super) async fn list(common: &Common, console: &mut Console) -> Result<(), Error> {
    let removals = common.client()?.removals().await?;
    if common.json {
        json::whole(&removals, console)?;
    } else {
        console.text(render_list(&removals))?;
    }
    Ok(())
}

fn render_list(removals: &Json) -> String {
    let row = |removal: &Json| {
        let begun = removal["asked_at"].as_f64().map(text::moment).unwrap_or_default();
        let removed = removal["removed"].as_object().into_iter().flatten();
        let removed: Vec<String> = removed.map(|(kind, number)| format!("{number} {kind}")).collect();
        let word = |name: &str| text::one_line(&shown(&removal[name]));
        vec![word("app"), word("user"), word("runs"), word("stage"), begun, removed.join(", ")]
    };
    let rows: Vec<_> = removals["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["APP", "USER", "RUNS", "STAGE", "BEGUN", "REMOVED"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_removal_shows_whose_it_is_and_how_far() {
        let removals = json!({"data": [
            {"id": "a1", "app": "a1", "user": null, "runs": "remove", "asked_at": 0, "stage": "runs",
                "removed": {"runs": 3}},
        ]});
        let list = render_list(&removals);
        let rows: Vec<&str> = list.lines().collect();
        assert!(rows[0].starts_with("APP  USER  RUNS    STAGE  BEGUN"), "{list}");
        assert_eq!(rows[1], "a1   -     remove  runs   1970-01-01 00:00:00 UTC  3 runs");
    }

    #[test]
    fn an_app_shows_its_state() {
        let app = json!({"id": "a1", "name": "Hello", "mode": "workflow", "version": "v1", "state": "off"});
        assert!(render(&app).ends_with("state    off\n"), "{}", render(&app));
    }
}
