//! Publishes the files of a folder one after another. A key is shown only once, so each file is shown as soon as it is
//! published, and an interruption waits for the file that is on its way.

use std::collections::HashMap;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::apply::{self, Applied, Outcome};
use crate::client::Client;
use crate::console::Console;
use crate::error::Error;
use crate::output::text::one_line;

/// A file to publish.
pub(crate) struct Publication<'a> {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The id of its app.
    pub(crate) id: &'a str,
    /// The version that its content gives, if other files name the id: an app of that id may be somebody else's.
    pub(crate) named_version: Option<String>,
    /// The user has allowed to replace the app of this id.
    pub(crate) may_replace: bool,
}

impl Publication<'_> {
    /// The reason why the app with this version must not be replaced.
    fn keeps(&self, before: Option<&str>) -> Option<String> {
        let is_other = before.is_some() && self.named_version.as_deref() != before;
        (self.named_version.is_some() && is_other && !self.may_replace).then(|| {
            format!(
                "there is an app {0} with another content, and other files call this one by that id; `--replace {0}` \
                 gives it this content",
                self.id
            )
        })
    }
}

/// What was published, and the reason for which it ended early.
pub(crate) struct Published {
    pub(crate) applied: Vec<Applied>,
    pub(crate) ended: Result<(), Error>,
}

/// Publishes the files. Goes on after a refusal. `shows_each` shows a line for each file as soon as its answer is there.
///
/// # Errors
/// The apps cannot be listed: nothing is published.
pub(crate) async fn all(
    client: &Client,
    files: &[Publication<'_>],
    shows_each: bool,
    console: &mut Console,
) -> Result<Published, Error> {
    let apps = client.apps().await?;
    let versions: HashMap<&str, &str> = apps["data"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|app| Some((app["id"].as_str()?, app["version"].as_str()?)))
        .collect();
    let mut interrupt = signal(SignalKind::interrupt()).ok();
    let mut published = Published { applied: Vec::new(), ended: Ok(()) };
    for (at, file) in files.iter().enumerate() {
        let before = versions.get(file.id).copied();
        let (done, is_last) = one(client, file, before, &mut interrupt, console).await;
        match done {
            Ok(applied) => {
                if shows_each {
                    console.line(line(&applied))?;
                }
                published.applied.push(applied);
            }
            Err(error) => {
                published.ended = Err(error);
                break;
            }
        }
        let rest = files.len() - at - 1;
        if is_last && rest > 0 {
            let text =
                format!("interrupted: {rest} of the files were not published; the same command goes on");
            published.ended = Err(Error::Failed(text));
            break;
        }
    }
    Ok(published)
}

/// Publishes a file, and says whether it is the last one because the user has interrupted the command. A second
/// interruption does not wait for the answer.
async fn one(
    client: &Client,
    file: &Publication<'_>,
    before: Option<&str>,
    interrupt: &mut Option<Signal>,
    console: &mut Console,
) -> (Result<Applied, Error>, bool) {
    if let Some(reason) = file.keeps(before) {
        return (Ok(apply::refused(&file.path, file.id, reason)), false);
    }
    let publishing = apply::publish(client, (&file.path, &file.text, file.id), before);
    tokio::pin!(publishing);
    let mut is_last = false;
    let done = loop {
        tokio::select! {
            done = &mut publishing => break done,
            () = interrupted(interrupt) => {
                if is_last {
                    break Err(Error::Failed("interrupted".into()));
                }
                is_last = true;
                console.note("ends after this file, whose key would be lost; Ctrl-C again ends at once");
            }
        }
    };
    if done.is_err() && before.is_none() {
        console.note(format_args!(
            "{} was perhaps published, without its key: if the next run says that it is unchanged, `tidemill keys add {}` \
             makes a key",
            one_line(&file.path),
            file.id
        ));
    }
    (done, is_last)
}

async fn interrupted(interrupt: &mut Option<Signal>) {
    match interrupt {
        Some(interrupt) => {
            interrupt.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The head of the lines.
pub(crate) const HEAD: &str = "\nPUBLISHED: outcome, app, key, file, and webhooks or the reason\n\n";

/// The line of a file.
fn line(one: &Applied) -> String {
    let outcome = match one.outcome {
        Outcome::Created => "created",
        Outcome::Updated => "new version",
        Outcome::Unchanged => "unchanged",
        Outcome::Refused => "refused",
    };
    let key = one.key.as_deref().unwrap_or("-");
    let rest = [one.error.clone(), one.note.clone(), Some(one.webhooks.join(" "))];
    let rest: Vec<String> = rest.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let text = format!("{outcome:<11}  {}  {key}  {}  {}", one.id, one.path, rest.join("; "));
    one_line(text.trim_end())
}

/// The totals of what was published.
pub(crate) fn totals(applied: &[Applied]) -> String {
    let count_of = |outcome| applied.iter().filter(|one| one.outcome == outcome).count();
    format!(
        "\n{} created, {} with a new version, {} unchanged, {} refused\n\
         Keys are shown only now; `tidemill keys add APP` makes another one.\n",
        count_of(Outcome::Created),
        count_of(Outcome::Updated),
        count_of(Outcome::Unchanged),
        count_of(Outcome::Refused),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_file_has_its_key_and_what_is_to_be_known() {
        let one = Applied {
            path: "a\u{1b}.yml".into(),
            outcome: Outcome::Created,
            id: "id".into(),
            key: Some("app-k".into()),
            webhooks: vec!["/triggers/webhook/w".into()],
            error: None,
            note: None,
        };
        assert_eq!(line(&one), "created      id  app-k  a .yml  /triggers/webhook/w");
        let refused = Applied {
            outcome: Outcome::Refused,
            key: None,
            webhooks: vec![],
            error: Some("no".into()),
            ..one
        };
        assert_eq!(line(&refused), "refused      id  -  a .yml  no");
        assert!(totals(&[refused]).contains("0 created, 0 with a new version, 0 unchanged, 1 refused"));
    }

    #[test]
    fn an_app_that_other_files_only_name_is_replaced_only_when_the_user_says_so() {
        let file = |named: Option<&str>, may_replace| Publication {
            path: "sub.yml".into(),
            text: String::new(),
            id: "d62a",
            named_version: named.map(str::to_owned),
            may_replace,
        };
        for (named, may_replace, before, keeps) in [
            (None, false, Some("other"), false),
            (Some("own"), false, None, false),
            (Some("own"), false, Some("own"), false),
            (Some("own"), false, Some("other"), true),
            (Some("own"), true, Some("other"), false),
        ] {
            let reason = file(named, may_replace).keeps(before);
            assert_eq!(reason.is_some(), keeps, "{named:?} {may_replace} {before:?}");
            assert!(reason.is_none_or(|reason| reason.contains("--replace d62a")));
        }
    }
}
