//! What plugins store.

use super::{Outcome, Subject, same};
use tidemill_common::store::{PluginValue, PluginValuePut};

fn put<'a>(key: &'a str, value: Option<&'a str>) -> PluginValue<'a> {
    PluginValue { plugin: "acme/maps", key, value, bytes_max: 214 }
}

pub(super) async fn values_of_a_plugin_are_kept_within_its_bytes(s: Subject) -> Outcome {
    let store = s.store();
    for (key, value, answer) in [
        // Each counts 100, its key, and its digits.
        ("a", Some("616263"), PluginValuePut::Stored),
        ("b", Some("61626364"), PluginValuePut::Full { used: 107 }),
        ("b", Some("616263"), PluginValuePut::Stored),
        // A shorter value gives its bytes back.
        ("a", Some("61"), PluginValuePut::Stored),
        ("b", Some("6162636465"), PluginValuePut::Stored),
        ("c", Some(""), PluginValuePut::Full { used: 214 }),
        ("a", None, PluginValuePut::Stored),
        ("a", None, PluginValuePut::Stored),
        ("c", Some("61"), PluginValuePut::Stored),
    ] {
        same(key, store.put_plugin_value(put(key, value)).await?, answer)?;
    }
    same("b", store.plugin_value("acme/maps", "b").await?, Some("6162636465".to_owned()))?;
    same("a", store.plugin_value("acme/maps", "a").await?, None)?;
    same("the count", store.plugin_value("acme/maps", "bytes").await?, None)?;
    let less = PluginValue { bytes_max: 3, ..put("b", Some("6162")) };
    same("less than it has", store.put_plugin_value(less).await?, PluginValuePut::Stored)
}

pub(super) async fn values_of_a_plugin_go_together(s: Subject) -> Outcome {
    let store = s.store();
    store.put_plugin_value(put("a", Some("61"))).await?;
    let other = PluginValue { plugin: "acme/other", ..put("a", Some("62")) };
    store.put_plugin_value(other).await?;
    let mut known = store.plugin_storages().await?;
    known.sort();
    same("who has stored", known, vec!["acme/maps".to_owned(), "acme/other".to_owned()])?;
    store.remove_plugin_values("acme/maps").await?;
    same("removed", store.plugin_value("acme/maps", "a").await?, None)?;
    same("another plugin", store.plugin_value("acme/other", "a").await?, Some("62".to_owned()))?;
    let again = store.put_plugin_value(put("a", Some("61626364656667"))).await?;
    same("all bytes are free", again, PluginValuePut::Stored)
}
