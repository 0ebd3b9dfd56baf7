//! `tidemill admin-keys`: creates, lists, replaces and revokes admin keys: keys of `/api/v1` with a role.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::common::Common;
use super::key_verbs::{self, Expiry, Revocation, Rotation};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{table, text};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create an admin key; it is shown only now
    Add {
        /// What it may do: admin (all), operator (all but apps, keys, stored settings and snapshots), read-only
        #[arg(long, value_parser = ["admin", "operator", "read-only"])]
        role: String,
        /// Who or what has it; the audit log shows it
        #[arg(long)]
        label: String,
        #[command(flatten)]
        expiry: Expiry,
        #[command(flatten)]
        common: Common,
    },
    /// List admin keys by id
    Ls {
        #[command(flatten)]
        common: Common,
    },
    /// Replace an admin key: makes another one with the same role, and ends the old one later
    Rotate(Rotation),
    /// Revoke an admin key: it is refused at once
    Rm(Revocation),
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { role, label, expiry, common } => {
            let mut body = json!({"role": role, "label": label});
            expiry.add_to(&mut body);
            let made = common.client()?.add_admin_key(&body).await?;
            key_verbs::show(&made, common, render_added, console)?;
        }
        Verb::Ls { common } => {
            let keys = common.client()?.admin_keys().await?;
            key_verbs::show(&keys, common, render, console)?;
        }
        Verb::Rotate(rotation) => {
            let made = rotation.common.client()?.rotate_admin_key(&rotation.id, &rotation.body()).await?;
            rotation.show(&made, "admin key", render_added, console)?;
        }
        Verb::Rm(revocation) => {
            revocation.common.client()?.revoke_admin_key(&revocation.id).await?;
            revocation.show("admin key", "its open connections end within a second", console)?;
        }
    }
    Ok(Exit::Succeeded)
}

fn render_added(made: &Json) -> String {
    let shown = |name: &str| made[name].as_str().unwrap_or_default().to_string();
    table::pairs(&["id", "label", "role", "key"].map(|name| (name, shown(name))))
}

fn render(keys: &Json) -> String {
    let row = |key: &Json| {
        let word = |name: &str| text::one_line(key[name].as_str().unwrap_or_default());
        let moment = |name: &str| key[name].as_f64().map(text::moment).unwrap_or_default();
        let status = key_verbs::status(key).unwrap_or_default();
        vec![word("id"), word("label"), word("role"), moment("created_at"), moment("last_used_at"), status]
    };
    let rows: Vec<_> = keys["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["KEY", "LABEL", "ROLE", "CREATED", "LAST USED", "STATUS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_key_shows_its_role_and_its_end() {
        let keys = json!({"data": [
            {"id": "ab12", "label": "on call", "role": "operator", "created_at": 0, "expires_at": 60, "last_used_at": 1,
                "revoked_at": null},
            {"id": "cd34", "label": "ci", "role": "admin", "created_at": 0, "expires_at": null, "last_used_at": null,
                "revoked_at": 2},
        ]});
        let shown = render(&keys);
        for word in
            ["on call", "operator", "until 1970-01-01 00:01:00 UTC", "revoked 1970-01-01 00:00:02 UTC"]
        {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        let made = json!({"id": "ab12", "label": "ci", "role": "admin", "key": "admin-1"});
        assert_eq!(render_added(&made), "id     ab12\nlabel  ci\nrole   admin\nkey    admin-1\n");
    }
}
