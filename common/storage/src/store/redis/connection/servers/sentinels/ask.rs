//! Asks Sentinels, all at once: one that is down or hangs holds up nothing.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::said::Said;
use crate::store::StoreError;
use crate::store::redis::connection::errors::explain;
use crate::store::redis::connection::replies::{array, text};
use crate::store::redis::connection::servers::node::{Lane, Node};

pub(super) const DOING: &str = "asking the Sentinels for the master";
/// The longest wait for a Sentinel.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// How long the others are waited for after the first answer: they may know of a newer fail-over.
const GRACE: Duration = Duration::from_millis(100);

/// A Sentinel.
#[derive(Clone)]
pub(super) struct Sentinel {
    pub(super) node: Arc<Node>,
    /// It did not answer when it was last asked. It is asked again, but not waited for while others answer.
    pub(super) is_silent: bool,
}

/// Why a Sentinel did not name the master.
#[derive(Debug, Clone)]
pub(super) enum Mute {
    /// It does not watch a master of this name.
    Unknown,
    Failed(StoreError),
}

/// The answers of all Sentinels.
#[derive(Default)]
pub(super) struct Answers {
    /// In the order in which they came.
    pub(super) said: Vec<Said>,
    /// Which Sentinels answered, in the same order.
    pub(super) by: Vec<Arc<str>>,
    pub(super) mute: Vec<(Arc<str>, Mute)>,
}

/// Asks all of these.
pub(super) async fn ask_all(sentinels: &[Sentinel], name: &Arc<str>) -> Answers {
    let (answer, mut answers) = mpsc::unbounded_channel();
    for sentinel in sentinels {
        let (node, name, answer) = (sentinel.node.clone(), name.clone(), answer.clone());
        // A connection that hangs is closed also when no process waits for the answer any more.
        tokio::spawn(async move {
            let asked = ask(&node, &name).await;
            drop(answer.send((node.address().clone(), asked)));
        });
    }
    drop(answer);
    let mut awaited: Vec<&Arc<str>> =
        sentinels.iter().filter(|it| !it.is_silent).map(|it| it.node.address()).collect();
    let mut all = Answers::default();
    let mut until = Instant::now() + PATIENCE;
    while let Ok(Some((place, asked))) = tokio::time::timeout_at(until, answers.recv()).await {
        awaited.retain(|other| **other != place);
        match asked {
            Ok(said) => {
                all.said.push(said);
                all.by.push(place);
                until = until.min(Instant::now() + GRACE);
            }
            Err(mute) => all.mute.push((place, mute)),
        }
        if awaited.is_empty() && !all.said.is_empty() {
            break;
        }
    }
    all
}

async fn ask(node: &Node, name: &str) -> Result<Said, Mute> {
    let mut pipe = redis::pipe();
    for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS", "REPLICAS"] {
        pipe.cmd("SENTINEL").arg(question).arg(name);
    }
    let sent =
        node.send(Lane::Short, DOING, &pipe).await.map_err(|error| Mute::Failed(of_sentinel(error)))?;
    if let Some(refusal) = sent.first().cloned().and_then(|value| value.extract_error().err()) {
        let is_other = refusal.to_string().to_ascii_lowercase().contains("unknown command");
        return Err(Mute::Failed(if is_other {
            let address = node.address();
            StoreError::Unusable(format!(
                "Redis at {address} is not a Sentinel; redis.url has to name Sentinels, or be redis://{address} for one \
                 server without them"
            ))
        } else {
            of_sentinel(explain(node.address(), DOING, &refusal))
        }));
    }
    Said::read(sent.into_iter()).ok_or(Mute::Unknown)
}

/// A Sentinel has a user of its own.
pub(super) fn of_sentinel(error: StoreError) -> StoreError {
    match error {
        StoreError::Denied { address, doing, reason } => {
            StoreError::SentinelDenied { address, doing, reason }
        }
        error => error,
    }
}

/// Whether a server says that it is a master.
///
/// # Errors
/// It does not answer in time, or may not be asked.
pub(super) async fn is_master(node: &Node) -> Result<bool, StoreError> {
    const DOING: &str = "asking the server for its role";
    let mut pipe = redis::pipe();
    pipe.cmd("ROLE");
    let late = |_| StoreError::Unreachable {
        address: node.address().to_string(),
        doing: DOING,
        reason: "no answer in time".into(),
    };
    let sent =
        tokio::time::timeout(PATIENCE * 2, node.send(Lane::Short, DOING, &pipe)).await.map_err(late)??;
    let role = sent.into_iter().next().unwrap_or(Value::Nil).extract_error();
    let role = role.map_err(|error| explain(node.address(), DOING, &error))?;
    let word = array(role).and_then(|parts| text(parts.into_iter().next()?));
    Ok(word.as_deref() == Some("master"))
}
