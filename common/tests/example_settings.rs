//! `deploy/example.toml` names every setting with its default: whoever adds a setting adds a line there.

#![cfg(feature = "runtime")]

use tidemill_common::config::Config;
use toml::Table;

#[test]
fn the_example_file_holds_every_setting_at_its_default() {
    let example: Table = include_str!("../../deploy/example.toml").parse().expect("the example is TOML");
    let mut defaults = Table::try_from(Config::default()).expect("settings are TOML");
    // Providers and profiles have names of their own; the example shows them as comments.
    defaults.remove("providers");
    defaults.remove("profiles");
    for (section, keys) in &defaults {
        assert_eq!(example.get(section), Some(keys), "[{section}]");
    }
    assert_eq!(example.len(), defaults.len(), "the example has a section that does not exist");
}
