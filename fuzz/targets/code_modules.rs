//! Looks for the modules that code imports. The code is scanned both as Python and as JavaScript.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidemill_common::nodes::code::CodeLanguage;
use tidemill_common::nodes::code::modules::{foreign_modules, networked_modules};

fuzz_target!(|code: &str| {
    for language in CodeLanguage::ALL {
        let lines = code.split('\n').count();
        for module in foreign_modules(language, code) {
            assert!(!module.name.contains('\n') || language == CodeLanguage::JavaScript, "{module:?}");
            assert!((1..=lines).contains(&module.line), "{module:?} of {lines} lines");
        }
        networked_modules(language, code);
    }
});
