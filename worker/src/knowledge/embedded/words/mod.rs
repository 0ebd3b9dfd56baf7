//! Which texts a question finds by its words, and how well: BM25 by tantivy, in memory, with no thread of its own.
//!
//! Words are those of [`keywords`]: runs of letters and digits, and pairs of characters in scripts without spaces; a single
//! such character is found as well. Every document has an index of its own, made once and never changed, so that one that
//! is replaced leaves the others as they are, and one that is not wanted is not looked into; what a word is worth is counted
//! over all of them. A score is the share of what a text could reach that repeats every word of the question without end:
//! from 0 to 1, and comparable between datasets.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::directory::RamDirectory;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::{InvertedIndexReader, SegmentReader};
use tantivy::postings::{Postings, TermInfo};
use tantivy::query::Bm25Weight;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer, TokenizerManager};
use tantivy::{DocSet, Index, IndexSettings, TERMINATED, TantivyDocument, Term};
use tidemill_common::nodes::knowledge_retrieval::keywords::{each, is_unspaced, keywords};

/// The only field of an index.
const TEXT: Field = Field::from_field_id(0);
/// What words are made by.
const TOKENIZER: &str = "words";
/// Bytes that making an index begins with; it takes what it needs.
const BEGIN_BYTES: usize = 100_000;
/// Bytes of an index besides its files, rather too many.
const INDEX_BYTES: usize = 8192;

/// The words of a document's segments.
pub struct Words {
    /// Of every word: in which segments it is, and how often.
    lists: Arc<InvertedIndexReader>,
    /// Words of each segment, about: more than 40 are rounded.
    lengths: Option<FieldNormReader>,
    segments: u64,
    bytes: u64,
}

/// A segment that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its document's place in the list that was searched.
    pub document: usize,
    /// Its own place in the document.
    pub segment: usize,
    /// How well it fits, the better the higher.
    pub score: f64,
}

impl Words {
    /// The words of these segments.
    ///
    /// # Errors
    /// There are too many.
    pub fn new<'a>(segments: impl Iterator<Item = &'a str>) -> tantivy::Result<Self> {
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let mut schema = Schema::builder();
        schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
        let tokenizers = TokenizerManager::new();
        tokenizers.register(TOKENIZER, ByWords);
        let settings =
            IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
        let directory = RamDirectory::create();
        let mut writer = Index::builder()
            .schema(schema.build())
            .tokenizers(tokenizers)
            .settings(settings)
            .single_segment_index_writer(directory.clone(), BEGIN_BYTES)?;
        let mut count = 0;
        for text in segments {
            let mut segment = TantivyDocument::new();
            segment.add_text(TEXT, text);
            writer.add_document(segment)?;
            count += 1;
        }
        if count == 0 {
            let lists = Arc::new(InvertedIndexReader::empty(IndexRecordOption::WithFreqs));
            return Ok(Self { lists, lengths: None, segments: 0, bytes: INDEX_BYTES as u64 });
        }
        let index = writer.finalize()?;
        // Exactly one; the writer makes no others.
        let made = index.searchable_segments()?.into_iter().next();
        let reader = made.as_ref().map(SegmentReader::open).transpose()?;
        let reader = reader.ok_or_else(|| tantivy::TantivyError::InternalError("no segment".into()))?;
        Ok(Self {
            lists: reader.inverted_index(TEXT)?,
            lengths: Some(reader.get_fieldnorms_reader(TEXT)?),
            segments: count,
            bytes: (directory.total_mem_usage() + INDEX_BYTES) as u64,
        })
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands on each segment of a word: its number, how often it holds the word, and the id of its length.
    fn each_holding(&self, word: &TermInfo, mut found: impl FnMut(u32, u32, u8)) -> tantivy::Result<()> {
        let Some(lengths) = &self.lengths else { return Ok(()) };
        let mut list = self.lists.read_postings_from_terminfo(word, IndexRecordOption::WithFreqs)?;
        let mut segment = list.doc();
        while segment != TERMINATED {
            found(segment, list.term_freq(), lengths.fieldnorm_id(segment));
            segment = list.advance();
        }
        Ok(())
    }
}

/// The segments of wanted documents that share words with the question, the best first; of equals the first one.
///
/// # Errors
/// An index cannot be read.
pub fn search(
    query: &str,
    documents: &[&Words],
    is_wanted: impl Fn(usize) -> bool,
) -> tantivy::Result<Vec<Hit>> {
    let all: u64 = documents.iter().map(|words| words.segments).sum();
    let length: u64 = documents.iter().map(|words| words.lists.total_num_tokens()).sum();
    let average = length as f32 / all.max(1) as f32;
    let mut scores: HashMap<(usize, u32), f64> = HashMap::new();
    let mut reachable = 0.0;
    let mut asked: Vec<String> = keywords(query).into_iter().collect();
    // So that sums come out the same.
    asked.sort_unstable();
    for word in asked {
        let word = Term::from_field_text(TEXT, &word);
        let mut holding: Vec<(usize, TermInfo)> = Vec::new();
        for (document, words) in documents.iter().enumerate() {
            holding.extend(words.lists.get_term_info(&word)?.map(|info| (document, info)));
        }
        // A word that is nowhere says nothing about anything.
        if holding.is_empty() {
            continue;
        }
        let frequency = holding.iter().map(|(_, info)| u64::from(info.doc_freq)).sum();
        let worth = Bm25Weight::for_one_term_without_explain(frequency, all, average);
        reachable += f64::from(worth.score(0, u32::MAX));
        for (document, info) in holding.into_iter().filter(|(document, _)| is_wanted(*document)) {
            documents[document].each_holding(&info, |segment, times, length| {
                *scores.entry((document, segment)).or_default() += f64::from(worth.score(length, times));
            })?;
        }
    }
    let hit = |((document, segment), score): ((usize, u32), f64)| Hit {
        document,
        segment: segment as usize,
        score: score / reachable,
    };
    let mut hits: Vec<Hit> = scores.into_iter().map(hit).collect();
    hits.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.document, a.segment).cmp(&(b.document, b.segment)))
    });
    Ok(hits)
}

/// Makes the words of a text.
#[derive(Clone)]
struct ByWords;

/// The words of a text, one after the other.
struct Tokens {
    words: std::vec::IntoIter<String>,
    next: usize,
    token: Token,
}

impl Tokenizer for ByWords {
    type TokenStream<'a> = Tokens;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Tokens {
        let mut words = Vec::new();
        each(text, |word| words.push(word));
        words.extend(text.chars().filter(|c| is_unspaced(*c)).map(String::from));
        Tokens { words: words.into_iter(), next: 0, token: Token::default() }
    }
}

impl TokenStream for Tokens {
    fn advance(&mut self) -> bool {
        let Some(text) = self.words.next() else { return false };
        self.token = Token { position: self.next, text, ..Token::default() };
        self.next += 1;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests;
