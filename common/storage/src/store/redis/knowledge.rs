//! Knowledge bases in Redis: a hash of datasets; for each dataset, hashes of documents and of their segments.

use std::collections::HashMap;

use async_trait::async_trait;
use redis::Pipeline;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{DocumentList, Generation, KnowledgeBases, Published, StoreError};
use tidemill_base::limits::{KNOWLEDGE_PENDING_SECONDS, KNOWLEDGE_REPLACED_SECONDS};
use tidemill_wire::knowledge::{
    DatasetRecord, DocumentRecord, IndexingRecord, SegmentRecord, TagRecord, is_inner, read, text,
};
use tidemill_workflow::knowledge::vectors::{from_text, to_text};

/// The most hash fields in one command, so that it does not block the server for long.
const FIELDS_AT_ONCE: usize = 256;
/// The most tries of a change when others come first.
const TRIES_MAX: usize = 20;

impl RedisStore {
    async fn records<T: serde::de::DeserializeOwned>(
        &self,
        doing: &'static str,
        key: String,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(key);
        let fields: HashMap<String, String> = self.connector.ask(doing, &command).await?;
        readable(doing, fields)
    }

    /// The searchable version of a document.
    async fn document(
        &self,
        doing: &'static str,
        dataset: &str,
        id: &str,
    ) -> Result<Option<DocumentRecord>, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.of_dataset(dataset, "documents")).arg(id);
        let text: Option<String> = self.connector.ask(doing, &command).await?;
        text.map(|text| read("a document", &text).map_err(|error| unexpected(doing, error.to_string())))
            .transpose()
    }

    /// Writes fields of a hash that expires unless it is published.
    async fn put_pending(
        &self,
        doing: &'static str,
        key: &str,
        fields: impl Iterator<Item = (u64, String)>,
    ) -> Result<(), StoreError> {
        let fields: Vec<(u64, String)> = fields.collect();
        for some in fields.chunks(FIELDS_AT_ONCE) {
            let mut pipe = redis::pipe();
            pipe.atomic().cmd("HSET").arg(key);
            some.iter().for_each(|(position, text)| {
                pipe.arg(position).arg(text);
            });
            pipe.ignore().cmd("EXPIRE").arg(key).arg(KNOWLEDGE_PENDING_SECONDS).ignore();
            self.connector.ask_all::<()>(doing, &pipe).await?;
        }
        Ok(())
    }

    async fn at_positions(
        &self,
        doing: &'static str,
        key: &str,
        positions: &[u64],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let mut all = Vec::with_capacity(positions.len());
        for some in positions.chunks(FIELDS_AT_ONCE) {
            let mut command = redis::cmd("HMGET");
            command.arg(key).arg(some);
            all.extend(self.connector.ask::<Vec<Option<String>>>(doing, &command).await?);
        }
        Ok(all)
    }

    async fn publish(
        &self,
        dataset: &str,
        document: &DocumentRecord,
        run: &str,
    ) -> Result<Published, StoreError> {
        const DOING: &str = "publishing a document";
        let record = text(document);
        for _ in 0..TRIES_MAX {
            let before = self.document(DOING, dataset, &document.id).await?;
            let before = before.map(|before| before.generation).unwrap_or_default();
            let keys = self.changing(dataset, &[&document.generation, &before]);
            let args =
                args![&document.id, run, &document.generation, &before, &record, KNOWLEDGE_REPLACED_SECONDS];
            let word: String =
                self.connector.run(DOING, &self.scripts.publish_document, &keys, &args).await?;
            return Ok(match word.as_str() {
                "PUBLISHED" => Published::Published,
                "BEFORE" => Published::Before,
                "OTHER" => Published::NotNewest,
                "GONE" => Published::Gone,
                "MOVED" => continue,
                other => return Err(unexpected(DOING, other)),
            });
        }
        Err(contended(DOING))
    }

    async fn forget_document(&self, dataset: &str, id: &str) -> Result<bool, StoreError> {
        const DOING: &str = "removing a document";
        for _ in 0..TRIES_MAX {
            let before = self.document(DOING, dataset, id).await?;
            let before = before.map(|before| before.generation).unwrap_or_default();
            let keys = self.changing(dataset, &[&before]);
            let args = args![id, &before, KNOWLEDGE_REPLACED_SECONDS];
            let word: String = self.connector.run(DOING, &self.scripts.drop_document, &keys, &args).await?;
            match word.as_str() {
                "DROPPED" => return Ok(true),
                "NONE" => return Ok(false),
                "MOVED" => {}
                other => return Err(unexpected(DOING, other)),
            }
        }
        Err(contended(DOING))
    }

    /// The keys that a change of these generations touches, in the order of the scripts.
    fn changing(&self, dataset: &str, generations: &[&str]) -> Vec<String> {
        let mut keys: Vec<String> = ["documents", "indexing", "version"]
            .iter()
            .map(|kind| self.keys.of_dataset(dataset, kind))
            .collect();
        for generation in generations {
            keys.extend(["segments", "vectors"].map(|it| self.keys.of_generation(dataset, it, generation)));
        }
        keys
    }

    async fn note_progress(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "storing the progress of a document";
        let keys = [self.keys.of_dataset(dataset, "indexing")];
        let args = args![document, &record.run, text(record)];
        let word: String = self.connector.run(DOING, &self.scripts.note_indexing, &keys, &args).await?;
        match word.as_str() {
            "NOTED" => Ok(true),
            "OTHER" => Ok(false),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn forget_dataset(&self, dataset: &str) -> Result<bool, StoreError> {
        const DOING: &str = "removing a dataset";
        // One after the other, because on a cluster the list of datasets is on another server than the dataset.
        let (mut listed, mut indexing) = (redis::cmd("HDEL"), redis::cmd("DEL"));
        listed.arg(self.keys.knowledge()).arg(dataset);
        let was_there: u64 = self.connector.ask(DOING, &listed).await?;
        // From here on no run can publish to it.
        indexing.arg(self.keys.of_dataset(dataset, "indexing"));
        self.connector.ask::<()>(DOING, &indexing).await?;
        let documents: Vec<(String, DocumentRecord)> =
            self.records(DOING, self.keys.of_dataset(dataset, "documents")).await?;
        // No transaction: a full Redis refuses each command in one. The list of documents goes last, so a repeated removal finds
        // what an earlier one has left.
        let mut pipe = redis::pipe();
        let unlink = |pipe: &mut Pipeline, key: String| {
            pipe.cmd("UNLINK").arg(key).ignore();
        };
        for (_, document) in &documents {
            for kind in ["segments", "vectors"] {
                unlink(&mut pipe, self.keys.of_generation(dataset, kind, &document.generation));
            }
        }
        for kind in ["indexing", "version", "hits", "documents"] {
            unlink(&mut pipe, self.keys.of_dataset(dataset, kind));
        }
        self.connector.ask_all::<()>(DOING, &pipe).await?;
        Ok(was_there > 0)
    }
}

fn readable<T: serde::de::DeserializeOwned>(
    doing: &'static str,
    fields: HashMap<String, String>,
) -> Result<Vec<(String, T)>, StoreError> {
    let record = |(id, text): (String, String)| {
        let record = serde_json::from_str(&text);
        record.map(|record| (id, record)).map_err(|error| unexpected(doing, error.to_string()))
    };
    let mut records = fields.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    records.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(records)
}

fn is_replaced(doing: &'static str, word: &str) -> Result<bool, StoreError> {
    match word {
        "REPLACED" => Ok(true),
        "MOVED" => Ok(false),
        other => Err(unexpected(doing, other)),
    }
}

fn contended(doing: &'static str) -> StoreError {
    StoreError::Refused {
        doing,
        reason: "other processes change the same document all the time; try again later".into(),
    }
}

#[async_trait]
impl KnowledgeBases for RedisStore {
    async fn datasets(&self) -> Result<Vec<DatasetRecord>, StoreError> {
        let records = self.records("listing datasets", self.keys.knowledge()).await?;
        Ok(records.into_iter().filter(|(id, _)| !is_inner(id)).map(|(_, record)| record).collect())
    }

    async fn dataset(&self, id: &str) -> Result<Option<DatasetRecord>, StoreError> {
        const DOING: &str = "reading a dataset";
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.knowledge()).arg(id);
        let text: Option<String> = self.connector.ask(DOING, &command).await?;
        text.map(|text| read("a dataset", &text).map_err(|error| unexpected(DOING, error.to_string())))
            .transpose()
    }

    async fn put_dataset(&self, dataset: &DatasetRecord, is_new: bool) -> Result<bool, StoreError> {
        let mut command = redis::cmd(if is_new { "HSETNX" } else { "HSET" });
        command.arg(self.keys.knowledge()).arg(&dataset.id).arg(text(dataset));
        let added: u64 = self.connector.ask("storing a dataset", &command).await?;
        Ok(!is_new || added > 0)
    }

    async fn replace_dataset(&self, dataset: &DatasetRecord) -> Result<bool, StoreError> {
        const DOING: &str = "changing a dataset";
        let keys = [self.keys.knowledge()];
        let args = args![&dataset.id, dataset.revision, text(dataset)];
        let word: String = self.connector.run(DOING, &self.scripts.replace_dataset, &keys, &args).await?;
        is_replaced(DOING, &word)
    }

    async fn drop_dataset(&self, dataset: &str) -> Result<bool, StoreError> {
        self.forget_dataset(dataset).await
    }

    async fn knowledge_version(&self, dataset: &str) -> Result<u64, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.of_dataset(dataset, "version"));
        let version: Option<u64> = self.connector.ask("reading a dataset", &command).await?;
        Ok(version.unwrap_or(0))
    }

    async fn documents(&self, dataset: &str) -> Result<DocumentList, StoreError> {
        const DOING: &str = "listing documents";
        // The version first, so that the documents are at least as new. No transaction, which a full Redis refuses.
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys.of_dataset(dataset, "version"));
        pipe.cmd("HGETALL").arg(self.keys.of_dataset(dataset, "documents"));
        let (version, fields): (Option<u64>, HashMap<String, String>) =
            self.connector.ask_all(DOING, &pipe).await?;
        let documents = readable(DOING, fields)?.into_iter().map(|(_, record)| record).collect();
        Ok(DocumentList { version: version.unwrap_or(0), documents })
    }

    async fn indexing(&self, dataset: &str) -> Result<Vec<(String, IndexingRecord)>, StoreError> {
        self.records("listing documents being indexed", self.keys.of_dataset(dataset, "indexing")).await
    }

    async fn begin_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<(), StoreError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.keys.of_dataset(dataset, "indexing")).arg(document).arg(text(record));
        self.connector.ask("beginning to index a document", &command).await
    }

    async fn note_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<bool, StoreError> {
        self.note_progress(dataset, document, record).await
    }

    async fn put_segments(&self, of: Generation<'_>, segments: &[SegmentRecord]) -> Result<(), StoreError> {
        let key = self.keys.of_generation(of.dataset, "segments", of.name);
        let fields = segments.iter().map(|segment| (segment.position, text(segment)));
        self.put_pending("storing segments", &key, fields).await
    }

    async fn put_vectors(&self, of: Generation<'_>, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError> {
        let key = self.keys.of_generation(of.dataset, "vectors", of.name);
        let fields = vectors.iter().map(|(position, vector)| (*position, to_text(vector)));
        self.put_pending("storing vectors", &key, fields).await
    }

    async fn segments(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<SegmentRecord>, StoreError> {
        const DOING: &str = "loading segments";
        let key = self.keys.of_generation(of.dataset, "segments", of.name);
        let texts = self.at_positions(DOING, &key, positions).await?;
        let record =
            |text: String| read("a segment", &text).map_err(|error| unexpected(DOING, error.to_string()));
        texts.into_iter().flatten().map(record).collect()
    }

    async fn vectors(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<Option<Vec<f32>>>, StoreError> {
        const DOING: &str = "loading vectors";
        let key = self.keys.of_generation(of.dataset, "vectors", of.name);
        let texts = self.at_positions(DOING, &key, positions).await?;
        let vector = |text: Option<String>| match text {
            None => Ok(None),
            Some(text) => from_text(&text).map(Some).ok_or_else(|| unexpected(DOING, "not a vector")),
        };
        texts.into_iter().map(vector).collect()
    }

    async fn publish_document(
        &self,
        dataset: &str,
        document: &DocumentRecord,
        run: &str,
    ) -> Result<Published, StoreError> {
        self.publish(dataset, document, run).await
    }

    async fn replace_document(&self, dataset: &str, document: &DocumentRecord) -> Result<bool, StoreError> {
        const DOING: &str = "changing a document";
        let keys = ["documents", "version"].map(|kind| self.keys.of_dataset(dataset, kind));
        let args = args![&document.id, &document.generation, document.revision, text(document)];
        let word: String = self.connector.run(DOING, &self.scripts.replace_document, &keys, &args).await?;
        is_replaced(DOING, &word)
    }

    async fn drop_document(&self, dataset: &str, document: &str) -> Result<bool, StoreError> {
        self.forget_document(dataset, document).await
    }

    async fn count_hits(&self, dataset: &str, hits: &[(String, u64)]) -> Result<(), StoreError> {
        if hits.is_empty() {
            return Ok(());
        }
        let key = self.keys.of_dataset(dataset, "hits");
        let mut pipe = redis::pipe();
        for (segment, count) in hits {
            pipe.cmd("HINCRBY").arg(&key).arg(segment).arg(*count).ignore();
        }
        self.connector.ask_all("counting hits", &pipe).await
    }

    async fn hits(&self, dataset: &str) -> Result<HashMap<String, u64>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.of_dataset(dataset, "hits"));
        self.connector.ask("reading hits", &command).await
    }

    async fn tags(&self) -> Result<Vec<TagRecord>, StoreError> {
        let records = self.records("listing tags of datasets", self.keys.knowledge_tags()).await?;
        Ok(records.into_iter().map(|(_, record)| record).collect())
    }

    async fn put_tag(&self, tag: &TagRecord) -> Result<(), StoreError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.keys.knowledge_tags()).arg(&tag.id).arg(text(tag));
        self.connector.ask("storing a tag of datasets", &command).await
    }

    async fn drop_tag(&self, tag: &str) -> Result<bool, StoreError> {
        let mut command = redis::cmd("HDEL");
        command.arg(self.keys.knowledge_tags()).arg(tag);
        let removed: u64 = self.connector.ask("removing a tag of datasets", &command).await?;
        Ok(removed > 0)
    }
}
