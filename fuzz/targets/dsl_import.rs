//! Imports an arbitrary workflow file. It is either built or refused with reasons.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidemill_common::dsl::Severity;
use tidemill_common::graph::import;

fuzz_target!(|bytes: &[u8]| {
    let imported = import(bytes);
    let is_wrong = imported.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(imported.graph.is_none(), is_wrong, "a graph exactly when nothing is wrong");
});
