//! Rewrites `structured_output_enabled`, the old name of `structured_output_switch_on`, which wins when both
//! are present.

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    if let Some(old) = data.shift_remove("structured_output_enabled") {
        data.entry("structured_output_switch_on").or_insert(old);
    }
}
