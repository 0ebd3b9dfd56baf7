//! The annotation reply in the gate: a question that matches an annotation is answered from it.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidemill_common::annotations::{HitRecord, ReplySetting};
use tidemill_common::graph::AppMode;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunHead;
use uuid::Uuid;

use crate::runs::answered::AnsweredBy;
use crate::runs::projection::clean_text;
use crate::submit::annotations::{Asked, Matched};
use crate::submit::prepare::Prepared;
use crate::submit::{Submission, SubmitError, Submitter, WorkflowSource};

/// A use of an annotation, to be counted when its run exists.
pub(in crate::submit) struct Hit {
    annotation: String,
    record: HitRecord,
}

impl Matched {
    /// The use of it by a run.
    pub(in crate::submit) fn hit(self, run: RunId, submission: &Submission) -> Hit {
        let annotation = self.annotation;
        let record = HitRecord {
            message_id: run.to_string(),
            question: super::question(submission),
            r#match: annotation.record.question,
            response: annotation.record.answer,
            score: self.score,
            source: "api".into(),
            ..HitRecord::default()
        };
        Hit { annotation: annotation.id, record }
    }
}

impl Submitter {
    /// Answers a question from an annotation that matches it, unless the gate has answered already. Looks only in memory
    /// while the app's annotation reply is off.
    ///
    /// # Errors
    /// Errors of the store.
    // Boxed, because the search is a run, too.
    pub(in crate::submit) fn reply_from_annotation<'a>(
        &'a self,
        submission: &'a Submission,
        prepared: &'a mut Prepared,
    ) -> BoxFuture<'a, Result<(), SubmitError>> {
        let WorkflowSource::App(app) = &submission.workflow else { return async { Ok(()) }.boxed() };
        let graph = &prepared.workflow.graph;
        let is_question = graph.mode == AppMode::Chat
            && submission.called.is_none()
            && submission.schedule.is_none()
            && prepared.preset.is_none();
        let setting = ReplySetting::in_force(app.annotation_reply.as_deref(), &graph.features);
        let Some(setting) = setting.filter(|_| is_question) else { return async { Ok(()) }.boxed() };
        async move {
            let (query, user) = (super::question(submission), prepared.user.clone());
            let asked = Asked { query: &query, user: &user, key: submission.key.as_deref() };
            let found = self.matching_annotation(app, &setting, asked).await?;
            let Some(found) = found else { return Ok(()) };
            // Ids of annotations are UUIDs.
            let Ok(id) = Uuid::try_parse(&found.annotation.id) else { return Ok(()) };
            let mut answer = found.annotation.record.answer.clone();
            clean_text(&prepared.workflow.graph.features, &mut answer);
            self.answer_with(prepared, AnsweredBy::Annotation(id), answer).await?;
            prepared.annotation = Some(Box::new(found));
            Ok(())
        }
        .boxed()
    }

    /// Counts the use of an annotation by a run that was created. A use that cannot be counted is only logged: the message
    /// is answered.
    pub(in crate::submit) async fn count_hit(&self, hit: Hit, head: &RunHead) {
        let Hit { annotation, record } = hit;
        let record = HitRecord { user: head.user.clone(), created_at: head.created_at.millis(), ..record };
        let app = head.app.as_deref().unwrap_or_default();
        let kept = self.config.features.annotation_hits_max;
        if let Err(error) = self.store.annotations().hit_annotation(app, &annotation, &record, kept).await {
            tracing::warn!(app, annotation, %error, "a use of an annotation is not counted");
        }
    }
}
