//! The owner of the bare loop: reads results from its cursor and commits a batch in one script.
//!
//! It knows only how many results of a fan are missing. The name of a run contains its shape, see [`super::Shape`].

use std::collections::HashMap;

use redis::Script;

use super::Shape;
use super::wire::{self, CURSOR, DONE, INBOX, JOBS, Step, TRIM_EVERY, TRIM_TO};
use crate::error::Error;

/// The reaction to a result.
#[derive(Debug, Default, PartialEq, Eq)]
struct Next {
    first: usize,
    count: usize,
    is_over: bool,
}

/// Runs until Redis is gone.
pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let (mut reading, mut writing) = (wire::connect(url).await?, wire::connect(url).await?);
    let commit = Script::new(include_str!("commit.lua"));
    let mut cursor = "0".to_string();
    let mut missing = HashMap::new();
    let mut since_trim = 0;
    loop {
        let results = wire::read_after(&mut reading, INBOX, &cursor).await?;
        let Some(last) = results.last() else { continue };
        cursor.clone_from(&last.entry);
        let mut call = commit.prepare_invoke();
        call.key(CURSOR).key(JOBS).key(DONE).arg(&cursor);
        for result in &results {
            let next = next(result, &mut missing)?;
            call.arg(&result.run).arg(result.node).arg(&result.payload);
            call.arg(next.first).arg(next.count).arg(u8::from(next.is_over));
        }
        call.invoke_async::<()>(&mut writing).await?;
        since_trim += results.len();
        if since_trim >= TRIM_EVERY {
            since_trim = 0;
            let mut trim = redis::cmd("XTRIM");
            trim.arg(INBOX).arg("MAXLEN").arg("~").arg(TRIM_TO).exec_async(&mut writing).await?;
        }
    }
}

fn next(result: &Step, missing: &mut HashMap<String, usize>) -> Result<Next, Error> {
    let shape = Shape::of_run(&result.run)
        .ok_or_else(|| Error::Wrong(format!("the name of the run {:?} has no shape", result.run)))?;
    Ok(match shape {
        Shape::Chain(length) if result.node + 1 >= length => Next { is_over: true, ..Next::default() },
        Shape::Chain(_) => Next { first: result.node + 1, count: 1, is_over: false },
        Shape::Fan(width) if result.node == 0 => {
            missing.insert(result.run.clone(), width);
            Next { first: 1, count: width, is_over: false }
        }
        Shape::Fan(width) if result.node > width => Next { is_over: true, ..Next::default() },
        Shape::Fan(width) => {
            let left = missing.entry(result.run.clone()).or_insert(width);
            *left -= 1;
            let joined = *left == 0;
            if joined {
                missing.remove(&result.run);
            }
            Next { first: width + 1, count: usize::from(joined), is_over: false }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(run: &str, node: usize, missing: &mut HashMap<String, usize>) -> (usize, usize, bool) {
        let step = Step { run: run.into(), node, ..Step::default() };
        let next = next(&step, missing).unwrap();
        (next.first, next.count, next.is_over)
    }

    #[test]
    fn a_chain_continues_to_its_last_node() {
        let mut missing = HashMap::new();
        assert_eq!(follows("chain-3-0", 1, &mut missing), (2, 1, false));
        assert_eq!(follows("chain-3-0", 2, &mut missing), (0, 0, true));
    }

    #[test]
    fn a_fan_joins_when_all_branches_have_ended() {
        let mut missing = HashMap::new();
        assert_eq!(follows("fan-2-0", 0, &mut missing), (1, 2, false));
        assert_eq!(follows("fan-2-0", 2, &mut missing), (3, 0, false));
        assert_eq!(follows("fan-2-0", 1, &mut missing), (3, 1, false));
        assert_eq!(follows("fan-2-0", 3, &mut missing), (0, 0, true));
    }
}
