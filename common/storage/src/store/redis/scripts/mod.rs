//! The Lua scripts, a file each. A script is for decisions that depend on what it reads; plain writes use a
//! transaction (the commit). All keys are declared, none is built inside Lua, and the answer is a word.

use ::redis::Script;

/// A script file.
pub struct ScriptFile {
    /// The file name without extension.
    pub name: &'static str,
    pub source: &'static str,
}

macro_rules! scripts {
    ($($field:ident)*) => {
        /// Every script.
        pub const SCRIPTS: &[ScriptFile] = &[
            $(ScriptFile { name: stringify!($field), source: include_str!(concat!(stringify!($field), ".lua")) },)*
        ];
        /// The scripts, ready to call.
        pub(super) struct Scripts { $(pub(super) $field: Script,)* }
        impl Scripts {
            pub(super) fn new() -> Self {
                Self { $($field: Script::new(include_str!(concat!(stringify!($field), ".lua"))),)* }
            }
        }
    };
}

scripts! {
    create_run send_command claim_shard renew_shard release_shard trim_inbox complete_jobs heartbeat take_over
    hand_back drop_consumers answer_pause load_run lost_jobs trim_jobs sweep_run put_back announce raise_version raise_shards note_files
    move_schedule note_trigger revoke_key expire_key begin_step record_step
    take_limit give_limit queue_state take_place take_request
    enter_conversation settle_turn change_conversation drop_conversation rate_message forget_runs put_entry remove_entry note_indexing publish_document drop_document replace_dataset replace_document called refuse_call
    put_annotation drop_annotation hit_annotation
    charge_upload give_back_uploads settle_early_files note_audit settle_notice
    store_blob index_runs set_app_state move_removal drop_webhook tidy_label close_app drop_app
    put_plugin_value
}

#[cfg(test)]
mod tests {
    use super::SCRIPTS;

    #[test]
    fn every_script_says_what_it_takes_and_gives() {
        for script in SCRIPTS {
            assert!(script.source.starts_with(&format!("-- {}: ", script.name)), "{}", script.name);
            for part in ["-- KEYS ", "-- ARGV ", "-- RETURNS ", "-- CALLER "] {
                assert!(script.source.contains(part), "{} lacks {part}", script.name);
            }
            let code: String = script.source.lines().filter(|l| !l.starts_with("--")).collect();
            assert!(!code.contains("..\":") && !code.contains(".. ':"), "{} builds a key", script.name);
        }
    }
}
