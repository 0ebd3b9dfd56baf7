//! Removes what apps keep besides their runs: keys, triggers, the webhook, annotations, conversations, users, idempotency
//! keys, uploads, and dead letters of their runs.

use futures_util::TryStreamExt;
use tidemill_common::files::day_of;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::limits::CONVERSATION_TURNS_MAX;
use tidemill_common::store::{
    AppState, ConversationRef, ConversationsBy, LimitOf, ListConversations, ListDead, Page, StateSet,
    StoreError,
};
use tidemill_common::wire::conversation::{conversation_copy, variable_of_field};

use super::{Failed, LookOf, Piece, Removal, Removals};
use crate::background::turns::in_order;
use crate::runs::ids::{app_uuid, end_user_uuid};

/// Things that are looked at in one piece.
const PIECE: usize = 100;
/// Uploads that are looked at in one piece.
const UPLOADS: usize = 500;
/// Looks at uploads that are under way. Other removals wait at that stage.
const LOOKS_AT_UPLOADS: usize = 16;

impl Removals {
    /// Removes what starts runs of an app, and what it sends. Of a user, only notes the keys of the app.
    pub(super) async fn begin(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let of_app = self.store.keys().await?.into_iter().filter(|key| key.app == removal.app);
        removal.keys = of_app.map(|key| key.id).collect();
        if removal.user.is_some() {
            return Ok(Piece::Done);
        }
        let app = removal.app.as_str();
        // A process may have stopped between the note of the removal and this.
        match self.store.removals().set_app_state(app, AppState::Removing).await? {
            StateSet::Done | StateSet::Removing => {}
            StateSet::Unknown => tracing::info!(app, "an app that is removed has no record any more"),
            // Another process has done it all, and there may be a new app with this id.
            StateSet::Over => return Ok(Piece::Done),
        }
        for key in &removal.keys {
            self.store.revoke_key(key).await?;
            self.store.put_key_budget(key, None).await?;
            self.store.app_limits().put_limits(&LimitOf::Key(key.clone()), None).await?;
        }
        self.store.app_limits().put_limits(&LimitOf::App(app.into()), None).await?;
        self.store.removals().drop_triggers(app).await?;
        self.store.put_webhook(app, None).await?;
        self.store.drop_notices(app).await?;
        Ok(Piece::Done)
    }

    /// Removes the annotations of an app with their index, or the uses of annotations by a user.
    pub(super) async fn annotations(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let annotations = self.store.annotations();
        let Some(user) = removal.user.as_deref() else {
            self.store.removals().drop_annotations(&removal.app).await?;
            self.submitter.drop_annotation_index(&removal.app).await?;
            return Ok(Piece::Done);
        };
        let from: usize = removal.place.parse().unwrap_or(0);
        let page = annotations.annotation_page(&removal.app, Page { from, count: PIECE }).await?;
        for annotation in &page {
            let all = Page { from: 0, count: usize::MAX };
            let hits = annotations.annotation_hits(&removal.app, &annotation.id, all).await?;
            let own = hits.iter().filter(|hit| hit.user == user);
            let messages: Vec<RunId> = own.filter_map(|hit| hit.message_id.parse().ok()).collect();
            annotations.forget_hits(&removal.app, &messages).await?;
        }
        if page.len() < PIECE {
            return Ok(Piece::Done);
        }
        removal.place = (from + PIECE).to_string();
        Ok(Piece::More)
    }

    /// Removes some conversations, with what was made beside their messages.
    pub(super) async fn some_conversations(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        if let Some(user) = removal.user.clone() {
            let query = ListConversations {
                app: removal.app.clone(),
                user,
                by: ConversationsBy::Begin,
                newest_first: false,
                after: None,
                limit: PIECE,
            };
            let found = self.store.conversations(&query).await?.unwrap_or_default();
            let is_last = found.len() < PIECE;
            let before = removal.asked_at.millis();
            for listed in found {
                let begun = listed.fields.get("created_at").and_then(|at| at.parse::<i64>().ok());
                if begun.is_some_and(|begun| begun > before) {
                    // The user has come back. This one and all after it began since.
                    return Ok(Piece::Done);
                }
                let of = self.reference(listed.shard, &listed.id, &query.app, &query.user).await?;
                self.drop_conversation(removal, &of).await?;
            }
            return Ok(if is_last { Piece::Done } else { Piece::More });
        }
        let (found, next) = self.store.removals().conversations_of_app(&removal.app, &removal.place).await?;
        for of in &found {
            self.drop_conversation(removal, of).await?;
        }
        Ok(went_on(removal, next))
    }

    async fn reference(
        &self,
        shard: ShardId,
        id: &str,
        app: &str,
        user: &str,
    ) -> Result<ConversationRef, StoreError> {
        let fields = self.store.conversation(shard, id).await?;
        let names = fields.keys().filter_map(|field| variable_of_field(field));
        let copies = names.map(|name| conversation_copy(id, name)).collect();
        Ok(ConversationRef { shard, id: id.to_owned(), app: app.to_owned(), user: user.to_owned(), copies })
    }

    async fn drop_conversation(&self, removal: &mut Removal, of: &ConversationRef) -> Result<(), StoreError> {
        let turns = self.store.turns(of.shard, &of.id, CONVERSATION_TURNS_MAX).await?;
        let turns = in_order(&turns);
        let messages: Vec<RunId> =
            turns.iter().filter_map(|turn| turn["id"].as_str()?.parse().ok()).collect();
        self.submitter.forget_beside(&of.app, &messages).await?;
        let is_dropped = self.store.drop_conversation(of).await?;
        removal.count("conversations", usize::from(is_dropped));
        Ok(())
    }

    /// Removes users.
    pub(super) async fn users(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (store, app) = (self.store.removals(), removal.app.as_str());
        if let Some(user) = removal.user.as_deref() {
            store.drop_user(&end_user_uuid(app, user).to_string()).await?;
            self.submitter.forget_user(app, user);
            return Ok(Piece::Done);
        }
        if removal.place.is_empty() {
            store.drop_lists(app).await?;
        }
        let next = store.drop_some_users(app, &removal.place).await?;
        Ok(went_on(removal, next))
    }

    /// Removes some idempotency keys: those of the app's runs, and that of the request that made the app.
    pub(super) async fn some_requests(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let (found, next) = self.store.removals().some_reserved(&removal.place).await?;
        let runs: Vec<RunId> = found.iter().map(|(_, run)| *run).collect();
        let fields = self.store.app_records().fields_of_runs(&runs, &["app"]).await?;
        let is_own = |(run, app): (&RunId, Option<&String>)| {
            app == Some(&removal.app) || app_uuid(*run).to_string() == removal.app
        };
        let own = found.iter().zip(&fields).filter(|((_, run), fields)| is_own((run, fields.get("app"))));
        let own: Vec<String> = own.map(|((key, _), _)| key.clone()).collect();
        self.store.removals().drop_reserved(&own).await?;
        Ok(went_on(removal, next))
    }

    /// Removes some uploads. The look goes on where this process was. If another one has begun it, it begins again with the
    /// day that was reached. A folder that changes may leave out names, so a day is looked at until nothing of it is removed.
    /// At the end the uploads of a user count no longer.
    pub(super) async fn some_uploads(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let place = self.submitter.uploads.open()?;
        let of = look_of(removal);
        let begun = {
            let mut looks = self.looks_at_uploads.lock().await;
            let begun = looks.remove(&of);
            if begun.is_none() && looks.len() >= LOOKS_AT_UPLOADS {
                // It waits until one of the others is done.
                return Ok(Piece::More);
            }
            begun
        };
        let asked = day_of(removal.asked_at.seconds()).unwrap_or_default();
        let begin = |removal: &mut Removal| {
            if removal.place <= asked {
                removal.kept_bytes = 0;
            }
            place.each(&removal.place)
        };
        let begun = begun.filter(|(reached, _)| *reached == removal.place).map(|(_, each)| each);
        // An earlier version has noted the place of a record.
        removal.place = removal.place.rsplit('/').nth(1).unwrap_or(&removal.place).to_owned();
        let mut each = begun.unwrap_or_else(|| begin(removal));
        for _ in 0..UPLOADS {
            let next = each.try_next().await?;
            let day = next.as_ref().map(|upload| upload.id.day().unwrap_or_default());
            if removal.is_left && day.as_deref() != Some(removal.place.as_str()) {
                removal.is_left = false;
                each = begin(removal);
                continue;
            }
            let (Some(upload), Some(day)) = (next, day) else {
                self.give_back(removal, &asked).await?;
                return Ok(Piece::Done);
            };
            removal.place = day;
            let is_users = removal.user.as_ref().is_none_or(|user| *user == upload.user);
            if !is_users || upload.app.as_deref() != Some(removal.app.as_str()) {
                continue;
            }
            if removal.user.is_none() || upload.created_at <= removal.asked_at.seconds() {
                place.forget(upload.id).await?;
                removal.count("uploads", 1);
                removal.is_left = true;
            } else if day_of(upload.created_at).as_ref() == Some(&asked) {
                // The user has come back.
                removal.kept_bytes += upload.size;
            }
        }
        self.looks_at_uploads.lock().await.insert(of, (removal.place.clone(), each));
        Ok(Piece::More)
    }

    /// Lets the uploads of a user count no longer, after they were removed. The counts of an app are removed with the app.
    async fn give_back(&self, removal: &Removal, until: &str) -> Result<(), StoreError> {
        let Some(user) = removal.user.as_deref() else { return Ok(()) };
        self.store.removals().give_back_uploads(&removal.app, user, until, removal.kept_bytes).await
    }

    /// Drops looks at uploads of removals that are done, or that another process has moved to another stage.
    pub(super) async fn drop_looks(&self, under_way: &[(String, String)]) {
        self.looks_at_uploads.lock().await.retain(|of, _| {
            let text = under_way.iter().find(|(id, _)| *id == of.0);
            text.and_then(|(_, text)| Removal::read(text)).is_some_and(|removal| look_of(&removal) == *of)
        });
    }

    /// Removes some dead letters of the runs: they contain what the runs were working on. And those whose runs are gone: no
    /// record says whose they were, and nothing can be done with them.
    pub(super) async fn some_dead_letters(&self, removal: &mut Removal) -> Result<Piece, Failed> {
        let before = removal.place.parse().ok();
        let letters = self.store.dead_letters(&ListDead { before, limit: PIECE }).await?;
        let runs: Vec<Option<RunId>> = letters.iter().map(|letter| letter.run.parse().ok()).collect();
        let known: Vec<RunId> = runs.iter().flatten().copied().collect();
        let fields = self.store.app_records().fields_of_runs(&known, &super::found::FIELDS).await?;
        let belong = self.belong(removal, &fields).await?;
        let mut are_meant = belong.iter().zip(&fields).map(|(belongs, fields)| *belongs || fields.is_empty());
        for (letter, run) in letters.iter().zip(runs) {
            if run.and_then(|_| are_meant.next()).unwrap_or_default() {
                let is_dropped = self.store.drop_dead_letter(letter.id).await?;
                removal.count("dead_letters", usize::from(is_dropped));
            }
        }
        let next = letters.last().filter(|_| letters.len() >= PIECE).map(|last| last.id.to_string());
        Ok(went_on(removal, next))
    }
}

/// The name of a removal's look at uploads.
fn look_of(removal: &Removal) -> LookOf {
    (removal.id(), removal.asked_at.micros(), removal.stage)
}

/// Notes the next place of a stage.
fn went_on(removal: &mut Removal, next: Option<String>) -> Piece {
    match next {
        Some(place) => {
            removal.place = place;
            Piece::More
        }
        None => Piece::Done,
    }
}
