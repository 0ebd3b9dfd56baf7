//! What `tidemill keys` and `tidemill admin-keys` have in common: the arguments of the verbs, and how their results are shown.

use clap::Args;
use serde_json::{Value as Json, json};

use super::common::Common;
use crate::console::Console;
use crate::error::Error;
use crate::output::{json, text};

/// How long a new key is valid.
#[derive(Debug, Args)]
pub(super) struct Expiry {
    /// For how long it is valid: 90m, 24h, 90d; without it, until it is revoked
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_in: Option<u64>,
}

impl Expiry {
    /// Adds it to the body of a request that makes a key.
    pub(super) fn add_to(&self, body: &mut Json) {
        if let Some(seconds) = self.expires_in {
            body["expires_in_seconds"] = seconds.into();
        }
    }
}

/// The key that is replaced, and for how long it stays valid.
#[derive(Debug, Args)]
pub(super) struct Rotation {
    /// Id of the old key, as `keys ls` or `admin-keys ls` shows it
    pub(super) id: String,
    /// For how long the old key stays valid: 90m, 24h, 7d; 0s revokes it at once
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
    overlap: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Rotation {
    /// The body of the request.
    pub(super) fn body(&self) -> Json {
        json!({"overlap_seconds": self.overlap})
    }

    /// Shows the new key, and what becomes of the old one. `kind` is the name of such keys.
    pub(super) fn show(
        &self,
        made: &Json,
        kind: &str,
        render: fn(&Json) -> String,
        console: &mut Console,
    ) -> Result<(), Error> {
        show(made, &self.common, render, console)?;
        if !self.common.json {
            console.note(format_args!("{kind} {} {}", self.id, after_rotation(self.overlap)));
        }
        Ok(())
    }
}

/// The key that is revoked.
#[derive(Debug, Args)]
pub(super) struct Revocation {
    /// Id of the key, as `keys ls` or `admin-keys ls` shows it
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Revocation {
    /// Says that the key is revoked, and what that does.
    pub(super) fn show(&self, kind: &str, effect: &str, console: &mut Console) -> Result<(), Error> {
        if self.common.json {
            json::whole(&json!({"id": self.id, "revoked": true}), console)?;
        } else {
            console.note(format_args!("{kind} {} is revoked; {effect}", self.id));
        }
        Ok(())
    }
}

/// Shows a new key, or a list of keys.
pub(super) fn show(
    answer: &Json,
    common: &Common,
    render: fn(&Json) -> String,
    console: &mut Console,
) -> Result<(), Error> {
    if common.json { json::whole(answer, console) } else { console.text(render(answer)) }
}

/// The state of a key with its time: that it is revoked, or its end.
pub(super) fn status(key: &Json) -> Option<String> {
    let moment = |name: &str| key[name].as_f64().map(text::moment).unwrap_or_default();
    match (key["revoked_at"].is_null(), key["expires_at"].is_null()) {
        (false, _) => Some(format!("revoked {}", moment("revoked_at"))),
        (true, false) => Some(format!("until {}", moment("expires_at"))),
        (true, true) => None,
    }
}

/// The state of a rotated key that stays valid for so many seconds.
fn after_rotation(overlap: u64) -> String {
    match overlap {
        0 => "is revoked".to_string(),
        seconds => format!("is valid for another {}", text::duration(seconds as f64)),
    }
}

/// A time such as 90m, 24h or 7d, in seconds.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write a time such as 30s, 90m, 24h, 7d".to_string();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_unit() {
        for (text, expected) in
            [("0s", Some(0)), ("90m", Some(5400)), ("7d", Some(604_800)), ("7", None), ("d", None)]
        {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
