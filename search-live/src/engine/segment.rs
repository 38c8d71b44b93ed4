//! A segment: documents in the order of the ring, indexed once, never changed.
//!
//! Document numbers ascend with ring ids, so that a slice of the ring is one interval of numbers,
//! or two where it goes around zero `[roar 7.1]`.

use super::aside::aside;
use super::entry::{Entry, Typed};
use super::text;
use cavy_search::ring::Slice;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tantivy::columnar::{Column, StrColumn};
use tantivy::directory::RamDirectory;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentReader;
use tantivy::schema::{
    FAST, Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Index, TantivyDocument};

/// Memory that the writer of a small segment may use before it is done, in bytes.
const SMALL: usize = 3_000_000;
/// The same for a large one.
const LARGE: usize = 60_000_000;

/// Documents after which a thread that goes last steps back: some 300 us.
const BREATH: usize = 8;

/// A document of an index, at a version.
#[derive(Debug)]
pub struct Doc {
    /// Where on the ring.
    pub ring: u64,
    /// By which the newest write wins.
    pub version: u64,
    /// It was deleted by that write.
    pub deleted: bool,
    /// What it says.
    pub entry: Entry,
}

/// A text field of a segment.
pub(super) struct TextField {
    pub(super) field: Field,
    /// Documents before each number that have the field.
    documents: Vec<u32>,
    /// Words before each number.
    words: Vec<u64>,
    pub(super) norms: FieldNormReader,
}

impl TextField {
    /// Documents of an interval that have the field, and their words, dead ones included.
    pub(super) fn within(&self, range: &Range<u32>) -> (u64, u64) {
        let (from, to) = (range.start as usize, range.end as usize);
        let documents = self.documents[to] - self.documents[from];
        (u64::from(documents), self.words[to] - self.words[from])
    }
}

/// Documents that are indexed.
pub struct Segment {
    /// Tantivy's.
    pub(super) reader: SegmentReader,
    docs: Vec<Arc<Doc>>,
    rings: Vec<u64>,
    texts: BTreeMap<String, TextField>,
    keywords: BTreeMap<String, (Field, StrColumn)>,
    longs: BTreeMap<String, Column<i64>>,
    doubles: BTreeMap<String, Column<f64>>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment of {} documents", self.docs.len())
    }
}

/// Fields of one kind while a segment is built.
type Fields = BTreeMap<String, (Field, String)>;

/// Everything that a field's name is looked up in.
#[derive(Default)]
struct Plan {
    texts: Fields,
    keywords: Fields,
    longs: Fields,
    doubles: Fields,
}

impl Plan {
    fn of(docs: &[Arc<Doc>]) -> (Plan, Schema) {
        let mut plan = Plan::default();
        let mut schema = Schema::builder();
        let text = TextOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_index_option(IndexRecordOption::WithFreqsAndPositions)
                .set_fieldnorms(true),
        );
        let keyword = TextOptions::default().set_fast("raw").set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer("raw")
                .set_index_option(IndexRecordOption::Basic)
                .set_fieldnorms(false),
        );
        let number = NumericOptions::from(FAST);
        for (path, value) in docs.iter().flat_map(|doc| &doc.entry.fields) {
            // Paths may be anything; names of a schema may not.
            let (fields, letter) = match value {
                Typed::Text(_) => (&mut plan.texts, 't'),
                Typed::Keyword(_) => (&mut plan.keywords, 'k'),
                Typed::Long(_) => (&mut plan.longs, 'l'),
                Typed::Double(_) => (&mut plan.doubles, 'd'),
            };
            if !fields.contains_key(path) {
                let name = format!("{letter}{}", fields.len());
                let field = match value {
                    Typed::Text(_) => schema.add_text_field(&name, text.clone()),
                    Typed::Keyword(_) => schema.add_text_field(&name, keyword.clone()),
                    Typed::Long(_) => schema.add_i64_field(&name, number.clone()),
                    Typed::Double(_) => schema.add_f64_field(&name, number.clone()),
                };
                fields.insert(path.clone(), (field, name));
            }
        }
        (plan, schema.build())
    }
}

impl Segment {
    /// Indexes documents, which need not be in order; one at a place of the ring.
    pub fn build(docs: Vec<Arc<Doc>>) -> tantivy::Result<Segment> {
        Segment::build_with(docs, || ())
    }

    /// The same by a thread that goes last. A system may let a thread go on for a while before
    /// another one, however urgent, so it steps back by itself.
    pub fn build_aside(docs: Vec<Arc<Doc>>) -> tantivy::Result<Segment> {
        aside(|| Segment::build_with(docs, std::thread::yield_now))
    }

    fn build_with(mut docs: Vec<Arc<Doc>>, breathe: fn()) -> tantivy::Result<Segment> {
        docs.sort_unstable_by_key(|doc| doc.ring);
        let (plan, schema) = Plan::of(&docs);
        let budget = if docs.len() < 5_000 { SMALL } else { LARGE };
        let mut writer = Index::builder()
            .schema(schema)
            .single_segment_index_writer::<TantivyDocument>(RamDirectory::create(), budget)?;
        let mut lengths: BTreeMap<&str, Vec<u32>> =
            plan.texts.keys().map(|path| (path.as_str(), vec![0; docs.len()])).collect();
        for (at, doc) in docs.iter().enumerate() {
            let mut document = TantivyDocument::default();
            // Positions of a second value go on after a gap, as in Lucene.
            let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
            for (path, value) in &doc.entry.fields {
                match value {
                    Typed::Text(value) => {
                        let first = positions.entry(path).or_default();
                        let terms = text::terms(value);
                        if let Some(lengths) = lengths.get_mut(path.as_str()) {
                            lengths[at] += terms.len() as u32;
                        }
                        let tokens = terms.into_iter().enumerate().map(|(at, text)| Token {
                            position: *first + at,
                            text,
                            ..Token::default()
                        });
                        let tokens: Vec<Token> = tokens.collect();
                        *first += tokens.len() + 100;
                        let text = PreTokenizedString { text: String::new(), tokens };
                        document.add_pre_tokenized_text(plan.texts[path].0, text);
                    }
                    Typed::Keyword(value) => document.add_text(plan.keywords[path].0, value),
                    Typed::Long(value) => document.add_i64(plan.longs[path].0, *value),
                    Typed::Double(value) => document.add_f64(plan.doubles[path].0, *value),
                }
            }
            writer.add_document(document)?;
            if at % BREATH == BREATH - 1 {
                breathe();
            }
        }
        let index = writer.finalize()?;
        let segments = index.searchable_segments()?;
        let segment = segments
            .first()
            .ok_or_else(|| tantivy::TantivyError::InternalError("a segment without any".into()))?;
        let reader = SegmentReader::open(segment)?;
        let mut texts = BTreeMap::new();
        for (path, (field, _)) in &plan.texts {
            let norms = reader.get_fieldnorms_reader(*field)?;
            let (mut documents, mut words) = (vec![0_u32], vec![0_u64]);
            for length in &lengths[path.as_str()] {
                documents.push(documents[documents.len() - 1] + u32::from(*length > 0));
                words.push(words[words.len() - 1] + u64::from(*length));
            }
            texts.insert(path.clone(), TextField { field: *field, documents, words, norms });
        }
        let fast = reader.fast_fields();
        let mut keywords = BTreeMap::new();
        for (path, (field, name)) in &plan.keywords {
            if let Some(column) = fast.str(name)? {
                keywords.insert(path.clone(), (*field, column));
            }
        }
        let (mut longs, mut doubles) = (BTreeMap::new(), BTreeMap::new());
        for (path, (_, name)) in &plan.longs {
            longs.insert(path.clone(), fast.i64(name)?);
        }
        for (path, (_, name)) in &plan.doubles {
            doubles.insert(path.clone(), fast.f64(name)?);
        }
        let rings = docs.iter().map(|doc| doc.ring).collect();
        Ok(Segment { reader, docs, rings, texts, keywords, longs, doubles })
    }

    /// How many documents it has, dead ones included.
    pub fn count(&self) -> u32 {
        self.docs.len() as u32
    }

    /// The document of a number.
    pub fn doc(&self, number: u32) -> &Arc<Doc> {
        &self.docs[number as usize]
    }

    /// All documents in order.
    pub fn docs(&self) -> &[Arc<Doc>] {
        &self.docs
    }

    /// The numbers of a slice: one interval, and a second one where the slice goes around zero.
    pub fn intervals(&self, slice: Slice) -> [Range<u32>; 2] {
        // Ids after `lo`, up to and including `hi`.
        let upto = |id: u64| self.rings.partition_point(|ring| *ring <= id) as u32;
        let (lo, hi) = (upto(slice.lo), upto(slice.hi));
        match slice.lo < slice.hi {
            true => [lo..hi, 0..0],
            false => [0..hi, lo..self.count()],
        }
    }

    /// The number of the document at a place of the ring.
    pub fn at(&self, ring: u64) -> Option<u32> {
        self.rings.binary_search(&ring).ok().map(|at| at as u32)
    }

    pub(super) fn text(&self, path: &str) -> Option<&TextField> {
        self.texts.get(path)
    }

    pub(super) fn keyword(&self, path: &str) -> Option<Field> {
        self.keywords.get(path).map(|(field, _)| *field)
    }

    pub(super) fn strings(&self, path: &str) -> Option<&StrColumn> {
        self.keywords.get(path).map(|(_, column)| column)
    }

    pub(super) fn longs(&self, path: &str) -> Option<&Column<i64>> {
        self.longs.get(path)
    }

    pub(super) fn doubles(&self, path: &str) -> Option<&Column<f64>> {
        self.doubles.get(path)
    }
}
