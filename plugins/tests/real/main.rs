//! The plugins in `tests/plugins` over the real SDK, in confined processes. `make plugins-test` runs them: it needs an index of
//! Python packages, or a folder with wheels (PLUGINS_WHEELS). PLUGINS_CACHE names the folder of environments; without it the
//! tests are left out, and say so.
//!
//! The tests have their own `main`, because the helper processes are this program again.
#![allow(clippy::unwrap_used, reason = "these are tests, without the harness that clippy looks for")]

mod asks;
mod bold;
mod lab;
mod many;

use std::process::ExitCode;

use lab::Lab;

#[allow(clippy::print_stdout, reason = "the results of tests")]
fn main() -> ExitCode {
    if let Some(code) = tidemill_sandbox::helper::run_if_asked() {
        return code;
    }
    let Some(cache) = std::env::var_os("PLUGINS_CACHE") else {
        println!(
            "LEFT OUT: the tests with the SDK of Dify's plugins need PLUGINS_CACHE; `make plugins-test` sets it"
        );
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let lab = Lab::new(cache.into()).await;
        many::all(&lab).await;
        bold::all(&lab).await;
        asks::all(&lab).await;
    });
    println!("all tests with the SDK passed");
    ExitCode::SUCCESS
}
