//! A segment: documents in the order of the ring, indexed once, never changed.
//!
//! Document numbers ascend with ring ids, so that a slice of the ring is one interval of numbers,
//! or two where it goes around zero `[roar 7.1]`.

use super::aside::aside;
use super::entry::{Entry, Kind, Typed};
use super::text;
use cavy_search::ring::Slice;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter::Map;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use tantivy::columnar::{Column, StrColumn};
use tantivy::directory::{OwnedBytes, RamDirectory};
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::{IndexSettings, IndexSortByField, Order, SegmentReader};
use tantivy::indexer::merge_filtered_segments;
use tantivy::schema::{
    Document, FAST, Field, IndexRecordOption, NumericOptions, OwnedValue, Schema,
    TextFieldIndexing, TextOptions,
};
use tantivy::store::Compressor;
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{BitSet, Index, TantivyError};

/// Memory that the writer of a small segment may use before it is done, in bytes.
const SMALL: usize = 600_000;
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
    /// Its files.
    stored: tantivy::index::Segment,
    plan: Plan,
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

/// Fields of one kind: where each is in a segment, and its name there.
type Fields = BTreeMap<String, (Field, String)>;

/// Everything that a field's name is looked up in.
#[derive(Clone, Default, PartialEq, Eq)]
struct Plan {
    texts: Fields,
    keywords: Fields,
    longs: Fields,
    doubles: Fields,
}

/// The place on the ring, by which documents are sorted.
const RING: &str = "ring";

impl Plan {
    /// What these documents have. Documents with the same fields have the same plan, whatever their
    /// order: their segments can be merged as they are.
    fn of(docs: &[Arc<Doc>]) -> (Plan, Schema) {
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
        let (mut plan, mut schema) = (Plan::default(), Schema::builder());
        schema.add_u64_field(RING, number.clone());
        let all = docs.iter().flat_map(|doc| &doc.entry.fields);
        let paths: BTreeSet<(Kind, &str)> =
            all.map(|(path, value)| (value.kind(), path.as_str())).collect();
        for (kind, path) in paths {
            let (fields, letter) = match kind {
                Kind::Text => (&mut plan.texts, 't'),
                Kind::Keyword => (&mut plan.keywords, 'k'),
                Kind::Long => (&mut plan.longs, 'l'),
                Kind::Double => (&mut plan.doubles, 'd'),
            };
            // Paths may be anything; names of a schema may not.
            let name = format!("{letter}{}", fields.len());
            let field = match kind {
                Kind::Text => schema.add_text_field(&name, text.clone()),
                Kind::Keyword => schema.add_text_field(&name, keyword.clone()),
                Kind::Long => schema.add_i64_field(&name, number.clone()),
                Kind::Double => schema.add_f64_field(&name, number.clone()),
            };
            fields.insert(path.to_owned(), (field, name));
        }
        (plan, schema.build())
    }

    /// How tantivy keeps a segment, whose store is empty. What is sorted already need not be
    /// sorted by it.
    fn settings(sort: bool) -> IndexSettings {
        let by_ring = || IndexSortByField { field: RING.to_owned(), order: Order::Asc };
        IndexSettings {
            sort_by_field: sort.then(by_ring),
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        }
    }
}

/// What a document is indexed by. Tantivy's own type writes words that are given as JSON, and reads
/// them from it.
struct Values(Vec<(Field, OwnedValue)>);

type Value<'a> = (Field, &'a OwnedValue);

impl Document for Values {
    type Value<'a> = &'a OwnedValue;
    type FieldsValuesIter<'a> =
        Map<slice::Iter<'a, (Field, OwnedValue)>, fn(&'a (Field, OwnedValue)) -> Value<'a>>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.0.iter().map(|(field, value)| (*field, value))
    }
}

/// Documents of a segment that go into another one.
#[derive(Debug)]
pub struct Chosen {
    /// Theirs.
    pub segment: Arc<Segment>,
    /// Their numbers, in order.
    pub docs: Vec<u32>,
}

impl Chosen {
    /// As tantivy wants to know it; nothing if these are all.
    fn alive(&self) -> io::Result<Option<AliveBitSet>> {
        if self.docs.len() == self.segment.docs.len() {
            return Ok(None);
        }
        let mut bits = BitSet::with_max_value(self.segment.count());
        for doc in &self.docs {
            bits.insert(*doc);
        }
        let mut bytes = Vec::new();
        write_alive_bitset(&bits, &mut bytes)?;
        Ok(Some(AliveBitSet::open(OwnedBytes::new(bytes))))
    }
}

/// Words of each document, by text field.
type Lengths = BTreeMap<String, Vec<u32>>;

fn internal(what: &str) -> TantivyError {
    TantivyError::InternalError(what.to_owned())
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

    /// Makes one segment of others, by a thread that goes last; one document at a place of the
    /// ring. Where all have the same fields no text is looked at again.
    pub fn merge_aside(all: Vec<Chosen>) -> tantivy::Result<Segment> {
        aside(move || match Segment::merge(&all)? {
            Some(segment) => Ok(segment),
            None => Segment::build_with(
                Segment::order(&all).into_iter().map(|(_, doc)| doc).collect(),
                std::thread::yield_now,
            ),
        })
    }

    /// Documents that are chosen, in the order of the ring, and where each is.
    fn order(all: &[Chosen]) -> Vec<((usize, u32), Arc<Doc>)> {
        let of = |(at, chosen): (usize, &Chosen)| {
            let docs = chosen.docs.iter().map(|doc| ((at, *doc), chosen.segment.doc(*doc).clone()));
            docs.collect::<Vec<_>>()
        };
        let mut order: Vec<_> = all.iter().enumerate().flat_map(of).collect();
        order.sort_unstable_by_key(|(_, doc)| doc.ring);
        order
    }

    /// `None` if they differ in their fields: tantivy merges what is alike.
    fn merge(all: &[Chosen]) -> tantivy::Result<Option<Segment>> {
        let Some(plan) = all.first().map(|first| &first.segment.plan) else { return Ok(None) };
        if all.iter().any(|chosen| chosen.segment.plan != *plan) {
            return Ok(None);
        }
        let stored: Vec<_> = all.iter().map(|chosen| chosen.segment.stored.clone()).collect();
        let alive = all.iter().map(Chosen::alive).collect::<io::Result<_>>()?;
        let ram = RamDirectory::create();
        let index = merge_filtered_segments(&stored, Plan::settings(true), alive, ram)?;
        let order = Segment::order(all);
        let mut lengths = Lengths::new();
        for path in plan.texts.keys() {
            let length = |((at, doc), _): &((usize, u32), _)| {
                let text = all[*at].segment.texts.get(path);
                text.map_or(0, |text| text.within(&(*doc..*doc + 1)).1 as u32)
            };
            lengths.insert(path.clone(), order.iter().map(length).collect());
        }
        let docs = order.into_iter().map(|(_, doc)| doc).collect();
        Segment::open(&index, plan.clone(), docs, &lengths).map(Some)
    }

    fn build_with(mut docs: Vec<Arc<Doc>>, breathe: fn()) -> tantivy::Result<Segment> {
        docs.sort_unstable_by_key(|doc| doc.ring);
        let (plan, schema) = Plan::of(&docs);
        let budget = if docs.len() < 5_000 { SMALL } else { LARGE };
        let ring = schema.get_field(RING)?;
        let mut writer = Index::builder()
            .schema(schema)
            .settings(Plan::settings(false))
            .single_segment_index_writer::<Values>(RamDirectory::create(), budget)?;
        let mut lengths: Lengths =
            plan.texts.keys().map(|path| (path.clone(), vec![0; docs.len()])).collect();
        for (at, doc) in docs.iter().enumerate() {
            let mut values = vec![(ring, OwnedValue::U64(doc.ring))];
            // Positions of a second value go on after a gap, as in Lucene.
            let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
            for (path, value) in &doc.entry.fields {
                values.push(match value {
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
                        (plan.texts[path].0, OwnedValue::PreTokStr(text))
                    }
                    Typed::Keyword(value) => {
                        (plan.keywords[path].0, OwnedValue::Str(value.clone()))
                    }
                    Typed::Long(value) => (plan.longs[path].0, OwnedValue::I64(*value)),
                    Typed::Double(value) => (plan.doubles[path].0, OwnedValue::F64(*value)),
                });
            }
            writer.add_document(Values(values))?;
            if at % BREATH == BREATH - 1 {
                breathe();
            }
        }
        let index = writer.finalize()?;
        Segment::open(&index, plan, docs, &lengths)
    }

    /// Of an index of one segment, whose documents are these.
    fn open(
        index: &Index,
        plan: Plan,
        docs: Vec<Arc<Doc>>,
        lengths: &Lengths,
    ) -> tantivy::Result<Segment> {
        let segments = index.searchable_segments()?;
        let stored = segments.into_iter().next().ok_or_else(|| internal("no segment was made"))?;
        let reader = SegmentReader::open(&stored)?;
        let rings: Vec<u64> = docs.iter().map(|doc| doc.ring).collect();
        let fast = reader.fast_fields();
        let sorted = fast.u64(RING)?;
        let same = |(at, ring): (usize, &u64)| sorted.first(at as u32) == Some(*ring);
        if reader.max_doc() as usize != docs.len() || !rings.iter().enumerate().all(same) {
            return Err(internal("a segment has other documents than it should"));
        }
        let mut texts = BTreeMap::new();
        for (path, (field, _)) in &plan.texts {
            let norms = reader.get_fieldnorms_reader(*field)?;
            let (mut documents, mut words) = (vec![0_u32], vec![0_u64]);
            for length in lengths.get(path).into_iter().flatten() {
                documents.push(documents[documents.len() - 1] + u32::from(*length > 0));
                words.push(words[words.len() - 1] + u64::from(*length));
            }
            if words.len() != docs.len() + 1 {
                return Err(internal("a segment does not say how long its texts are"));
            }
            texts.insert(path.clone(), TextField { field: *field, documents, words, norms });
        }
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
        Ok(Segment { reader, stored, plan, docs, rings, texts, keywords, longs, doubles })
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
