//! Tests of seals: which key opens them, and when a seal stays unchanged.

use super::*;
use crate::dsl::{ParseOptions, parse};

fn with_secret() -> Document {
    let text = b"kind: app\nversion: 0.6.0\napp: {mode: workflow, name: x}\nworkflow:\n  environment_variables:\n  - {name: TOKEN, value_type: secret, value: hunter2}\n  - {name: EMPTY, value_type: secret, value: ''}\n  - {name: PLAIN, value_type: string, value: seen}\n  graph: {nodes: [], edges: []}\n";
    parse(text, &ParseOptions::default()).0.unwrap()
}

#[test]
fn a_sealed_document_shows_no_secret_and_opens_to_the_original() {
    let key = SealingKey::from_passphrase("a passphrase");
    let clear = with_secret();
    let mut document = clear.clone();
    document.seal(Some(&key)).unwrap();
    let text = document.canonical();
    assert!(!text.contains("hunter2") && text.contains("sealed:v1:") && text.contains("seen"));
    let mut read = Document::from_stored(&text).unwrap();
    read.open(Some(&key)).unwrap();
    assert_eq!(read, clear);
}

#[test]
fn the_same_document_under_the_same_key_has_the_same_hash() {
    let key = SealingKey::from_passphrase("a");
    let (mut one, mut two, mut other) = (with_secret(), with_secret(), with_secret());
    one.seal(Some(&key)).unwrap();
    two.seal(Some(&key)).unwrap();
    two.seal(Some(&key)).unwrap();
    other.seal(Some(&SealingKey::from_passphrase("b"))).unwrap();
    assert_eq!(one.hash(), two.hash());
    assert_ne!(one.hash(), other.hash());
}

#[test]
fn missing_wrong_and_swapped_seals_are_errors() {
    let key = SealingKey::from_passphrase("a");
    let mut document = with_secret();
    let error = document.seal(None).unwrap_err();
    assert!(error.to_string().contains("TIDEMILL_SECRET_KEY") && !error.to_string().contains("hunter2"));
    document.seal(Some(&key)).unwrap();
    assert_eq!(document.seal(None), Ok(()), "what is sealed needs no key to stay sealed");
    let name = || "TOKEN".to_owned();
    assert_eq!(document.open(None), Err(SealError::NoKey { name: name() }));
    let wrong = SealingKey::from_passphrase("b");
    assert_eq!(document.open(Some(&wrong)), Err(SealError::WrongKey { name: name() }));
    document.environment[0].name = "OTHER".into();
    assert!(document.open(Some(&key)).is_err());
}

fn salted(passphrase: &str, salt: u8) -> SealingKey {
    let key = SealingKey::from_passphrase(passphrase);
    key.salt_with(Salt::of([salt; SALT_BYTES]));
    key
}

#[test]
fn a_salted_key_writes_seals_of_the_second_kind_and_opens_both() {
    let (before, after) = (SealingKey::from_passphrase("a"), salted("a", 1));
    let old = before.seal("TOKEN", "hunter2").unwrap();
    let new = after.seal("TOKEN", "hunter2").unwrap();
    assert!(old.starts_with("sealed:v1:") && new.starts_with("sealed:v2:"), "{old} {new}");
    assert_eq!(new, after.seal("TOKEN", "hunter2").unwrap(), "equal documents keep their hash");
    for (key, seal) in [(&before, &old), (&before, &new), (&after, &old), (&after, &new)] {
        assert_eq!(key.open("TOKEN", seal).as_deref(), Some("hunter2"), "{seal}");
    }
    assert_eq!(salted("b", 1).open("TOKEN", &new), None, "another passphrase");
    assert_eq!(after.open("OTHER", &new), None, "another name");
    let other = salted("a", 2).seal("TOKEN", "hunter2").unwrap();
    assert_ne!(other, new, "another installation");
    assert_eq!(after.open("TOKEN", &other).as_deref(), Some("hunter2"), "its seal opens here too");
}

#[test]
fn an_earlier_seal_and_the_hash_stay_unchanged() {
    let (before, after) = (SealingKey::from_passphrase("a"), salted("a", 1));
    let mut document = with_secret();
    document.seal(Some(&before)).unwrap();
    let hash = document.hash();
    document.seal(Some(&after)).unwrap();
    assert_eq!(document.hash(), hash);
    document.open(Some(&after)).unwrap();
    assert_eq!(document, with_secret());
}

#[test]
fn seals_are_known_by_their_form_also_those_of_later_versions() {
    for sealed in ["sealed:v1:", "sealed:v2:AAAA", "sealed:v17:x"] {
        assert!(is_sealed(sealed), "{sealed}");
    }
    for plain in ["", "sealed:", "sealed:v:x", "sealed:v1", "sealed:vx:y", "Sealed:v1:x", " sealed:v1:x"] {
        assert!(!is_sealed(plain), "{plain}");
    }
}

#[test]
fn the_first_secret_that_came_sealed_is_named() {
    let mut document = with_secret();
    assert_eq!(document.first_sealed(), None);
    document.seal(Some(&SealingKey::from_passphrase("a"))).unwrap();
    assert_eq!(document.first_sealed(), Some("TOKEN"));
}

#[test]
fn a_seal_of_a_later_version_is_no_secret_in_clear() {
    let mut document = with_secret();
    document.environment[0].value.value = Json::String("sealed:v3:AAAA".into());
    let error = document.open(Some(&SealingKey::from_passphrase("a"))).unwrap_err();
    assert_eq!(error, SealError::WrongKey { name: "TOKEN".into() });
}

#[test]
fn a_document_with_seals_of_many_salts_is_refused_before_they_cost_anything() {
    let template = with_secret().environment[0].clone();
    let mut document = with_secret();
    document.environment = (0..6_u8)
        .map(|salt| {
            let mut variable = template.clone();
            let bytes = [&[salt; SALT_BYTES][..], &[0; 60]].concat();
            variable.name = format!("S{salt}").into();
            variable.value.value = Json::String(format!("{SALTED_PREFIX}{}", BASE64.encode(bytes)));
            variable
        })
        .collect();
    let key = SealingKey::from_passphrase("a");
    let refused = document.seal(Some(&key)).unwrap_err();
    assert_eq!(refused, SealError::TooManySalts { name: "S4".into() });
}

#[test]
fn debug_shows_no_secret() {
    let document = with_secret();
    let shown =
        format!("{document:?} {:?} {:?}", document.environment, SealingKey::from_passphrase("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}
