//! The worker of the bare loop: reads jobs and returns their payload as the result, a batch in one script.

use redis::Script;

use super::wire::{self, GROUP, INBOX, JOBS, TRIM_EVERY, TRIM_TO};
use crate::error::Error;

/// Runs until Redis is gone.
pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let (mut reading, mut writing) = (wire::connect(url).await?, wire::connect(url).await?);
    let report = Script::new(include_str!("report.lua"));
    let mut since_trim = 0;
    loop {
        let jobs = wire::read_jobs(&mut reading, "worker").await?;
        if jobs.is_empty() {
            continue;
        }
        let mut call = report.prepare_invoke();
        call.key(INBOX).key(JOBS).arg(GROUP);
        for job in &jobs {
            call.arg(&job.entry).arg(&job.run).arg(job.node).arg(&job.payload);
        }
        call.invoke_async::<()>(&mut writing).await?;
        since_trim += jobs.len();
        if since_trim >= TRIM_EVERY {
            since_trim = 0;
            let mut trim = redis::cmd("XTRIM");
            trim.arg(JOBS).arg("MAXLEN").arg("~").arg(TRIM_TO).exec_async(&mut writing).await?;
        }
    }
}
