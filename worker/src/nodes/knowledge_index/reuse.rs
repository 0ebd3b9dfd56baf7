//! The vectors that a change of segments takes over from the version before, so that a model is asked only for new texts.

use std::collections::HashMap;

use tidemill_common::failure::NodeFailure;
use tidemill_common::store::{Generation, KnowledgeBases};
use tidemill_common::wire::knowledge::{DocumentRecord, ModelName, SegmentRecord};

use super::patiently;

/// Segments read per request.
const PAGE: u64 = 256;

/// The vectors of those segments whose text is in the version before, by the positions of the new segments.
pub(super) async fn vectors(
    store: &dyn KnowledgeBases,
    dataset: &str,
    before: &DocumentRecord,
    embedding: &ModelName,
    made: &[SegmentRecord],
) -> Result<Vec<(u64, Vec<f32>)>, NodeFailure> {
    if before.dimension == 0 || before.embedding.as_ref() != Some(embedding) {
        return Ok(Vec::new());
    }
    let of = Generation { dataset, name: &before.generation };
    let wanted: HashMap<&str, u64> = made.iter().map(|it| (it.content.as_str(), it.position)).collect();
    let mut known: HashMap<String, Vec<f32>> = HashMap::new();
    let mut from = 1;
    while from <= before.segments {
        let positions: Vec<u64> = (from..=before.segments.min(from + PAGE - 1)).collect();
        let kept = patiently(|| store.segments(of, &positions)).await?;
        let kept: Vec<SegmentRecord> =
            kept.into_iter().filter(|it| wanted.contains_key(it.content.as_str())).collect();
        let positions: Vec<u64> = kept.iter().map(|it| it.position).collect();
        let vectors = patiently(|| store.vectors(of, &positions)).await?;
        let pairs = kept.into_iter().zip(vectors);
        known.extend(pairs.filter_map(|(segment, vector)| Some((segment.content, vector?))));
        from += PAGE;
    }
    let taken = made.iter().filter_map(|it| Some((it.position, known.get(&it.content)?.clone())));
    Ok(taken.collect())
}
