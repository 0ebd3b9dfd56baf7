//! Checks that `docs/redis.md` has a row for every key and every script, so that operators find each one
//! there.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts between backticks on the page.
fn terms(page: &str) -> Vec<&str> {
    page.split('`').skip(1).step_by(2).collect()
}

/// The sources in a folder.
fn read_all(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = files.map(|file| file.expect("an entry").path()).filter(|path| !path.ends_with("tests.rs"));
    paths.map(|path| fs::read_to_string(path).expect("a source")).collect()
}

/// The key names in `keys/`, each split into the text before and after its variable part.
fn spelled(source: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (call, prefix) in [("self.global(", "tm:"), ("self.own(", "tm:"), ("self.shard(", "tm:{n}:")] {
        for rest in source.split(call).skip(1) {
            let statement = rest.split("\n    }").next().unwrap_or(rest);
            let Some(name) = statement.split('"').nth(1) else { continue };
            // Patterns for subscriptions are not keys.
            if name.starts_with("{*}") {
                continue;
            }
            let before = name.split('{').next().unwrap_or_default();
            let behind = if name.contains('}') { name.rsplit('}').next().unwrap_or_default() } else { "" };
            names.push((format!("{prefix}{before}"), behind.to_string()));
        }
    }
    names
}

#[test]
fn every_key_is_on_the_page() {
    let page = read("../../docs/redis.md");
    let names = spelled(&read_all("src/store/redis/keys"));
    assert!(names.len() > 60, "keys are spelled in another way now: {names:?}");
    for (before, behind) in names {
        let is_there = |term: &&str| term.starts_with(&before) && term.ends_with(&behind);
        assert!(terms(&page).iter().any(is_there), "docs/redis.md has no row for {before}…{behind}");
    }
}

#[test]
fn every_script_is_on_the_page() {
    let page = read("../../docs/redis.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/scripts");
    let files = fs::read_dir(&folder).expect("the folder of scripts");
    for file in files {
        let path = file.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "lua") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            assert!(page.contains(&format!("| `{name}` |")), "docs/redis.md has no row for {name}");
        }
    }
}
