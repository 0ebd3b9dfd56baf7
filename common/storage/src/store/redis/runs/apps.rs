//! Published apps.

use std::collections::HashMap;

use crate::store::redis::RedisStore;
use crate::store::{App, AppState, KeyGrant, KeyNote, Runs, StoreError, TriggerChanges};
use tidemill_base::clock::Timestamp;

impl RedisStore {
    pub(super) async fn write_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError> {
        let meta = Runs::meta(self).await?;
        self.set_due(triggers, meta).await?;
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HSET").arg(self.keys.app(&app.id));
        for (field, value) in [
            ("name", app.name.as_str()),
            ("mode", &app.mode),
            ("version", &app.version),
            ("document", &app.document),
            ("created_at", &app.created_at_ms.to_string()),
            ("triggers", &serde_json::to_string(&app.triggers).unwrap_or_default()),
        ] {
            pipe.arg(field).arg(value);
        }
        pipe.ignore();
        pipe.cmd("SADD").arg(self.keys.apps()).arg(&app.id).ignore();
        if let Some(hash) = key_hash {
            let at = Timestamp::from_millis(app.created_at_ms);
            self.write_key(&mut pipe, &KeyGrant::of(&app.id), hash, &KeyNote::made(hash, at, true));
        }
        self.change_triggers(triggers, &mut pipe);
        self.connector.ask_all::<()>("registering an app", &pipe).await?;
        self.settle_due(triggers, meta).await
    }

    pub(super) async fn read_app(&self, id: &str) -> Result<Option<App>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.app(id));
        let mut fields: HashMap<String, String> = self.connector.ask("reading an app", &command).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let mut take = |name: &str| fields.remove(name).unwrap_or_default();
        Ok(Some(App {
            id: id.to_string(),
            name: take("name"),
            mode: take("mode"),
            version: take("version"),
            document: take("document"),
            created_at_ms: take("created_at").parse().unwrap_or(0),
            triggers: serde_json::from_str(&take("triggers")).unwrap_or_default(),
            state: AppState::named(&take("state")),
            annotation_reply: fields.remove("annotation_reply"),
        }))
    }

    pub(super) async fn ids_of_apps(&self) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("SMEMBERS");
        command.arg(self.keys.apps());
        let mut ids: Vec<String> = self.connector.ask("listing apps", &command).await?;
        ids.sort();
        Ok(ids)
    }
}
