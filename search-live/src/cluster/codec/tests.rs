use super::*;
use crate::cluster::content::{Bytes, Finding};
use cavy_core::Span;
use cavy_search::cluster::catalogue::{Catalogue, Change, Index, Refusal};
use cavy_search::cluster::many::Wish;
use cavy_search::cluster::{Doc, Map, Move, Moving, Outcome, State, message};
use cavy_search::ring::Slice;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::fmt::Debug;

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span::from_ns)
}

fn slice() -> impl Strategy<Value = Slice> {
    any::<(u64, u64)>().prop_map(|(lo, hi)| Slice::new(lo, hi))
}

fn doc() -> impl Strategy<Value = Doc<Bytes>> {
    (any::<(u64, u64, bool)>(), bytes()).prop_map(|((id, version, deleted), body)| Doc {
        id,
        version,
        deleted,
        body,
    })
}

/// Where so many ranges begin: at different ids, in any order.
fn starts(count: usize) -> impl Strategy<Value = Arc<[u64]>> {
    btree_set(any::<u64>(), count)
        .prop_map(|ids| ids.into_iter().collect::<Vec<u64>>())
        .prop_shuffle()
        .prop_map(Arc::from)
}

fn moving(servers: usize) -> impl Strategy<Value = Moving> {
    let server = move || 0..servers as u32;
    let what = prop_oneof![
        server().prop_map(Move::Leaves),
        server().prop_map(Move::Joins),
        starts(servers).prop_map(Move::Borders),
    ];
    (what, any::<bool>()).prop_map(|(what, switched)| Moving { what, switched })
}

fn map() -> impl Strategy<Value = Arc<Map>> {
    let state = prop_oneof![
        Just(State::Up),
        Just(State::Down),
        Just(State::Out),
        any::<u64>().prop_map(State::Behind),
    ];
    let spread = any::<(u32, u32)>().prop_map(|(one, two)| {
        let p = one.max(1);
        (p, 1 + two % p)
    });
    (vec(state, 1..6), spread, any::<(u64, bool)>()).prop_flat_map(
        |(states, (p, stored), (epoch, settled))| {
            let servers = states.len();
            (option::of(starts(servers)), option::of(moving(servers))).prop_map(
                move |(starts, moving)| {
                    let states = states.clone();
                    Arc::new(Map { epoch, p, stored, settled, states, starts, moving })
                },
            )
        },
    )
}

fn catalogue() -> impl Strategy<Value = Arc<Catalogue>> {
    let index = (any::<(u32, u64)>(), 1..=u32::MAX, bytes(), any::<u64>()).prop_map(
        |((number, changes), p, about, token)| Index { number, changes, p, about, token },
    );
    (any::<(u64, u32, u64)>(), btree_map(any::<String>(), index, 0..4)).prop_map(
        |((version, last, token), indices)| Arc::new(Catalogue { version, last, indices, token }),
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<(String, u32)>(), bytes()).prop_map(|((name, p), about)| Change::Create {
            name,
            p,
            about
        }),
        (any::<(String, u32, u64)>(), bytes()).prop_map(|((name, number, changes), about)| {
            Change::Alter { name, number, changes, about }
        }),
        any::<String>().prop_map(|name| Change::Delete { name }),
    ]
}

/// Never [`Finding::Made`], which becomes what was found.
fn outcome() -> impl Strategy<Value = Outcome<Live>> {
    prop_oneof![
        (span(), span(), bytes()).prop_map(|(took, backlog, found)| Outcome::Done {
            took,
            backlog,
            found: Finding::Bytes(found)
        }),
        any::<u64>().prop_map(|epoch| Outcome::Refused { epoch }),
        span().prop_map(|backlog| Outcome::Overloaded { backlog }),
    ]
}

fn of_index() -> impl Strategy<Value = message::Message<Live>> {
    use message::Message::{Answer, Beat, Chunk, Fetch, Grant, Logged, Put, Sub};
    let beat = (any::<(u64, u64, bool, bool, u64)>(), option::of(span()));
    prop_oneof![
        (any::<(u64, u32, bool)>(), slice(), bytes()).prop_map(
            |((query, part, again), slice, question)| Sub { query, part, slice, question, again }
        ),
        (any::<(u64, u32)>(), outcome()).prop_map(|((query, part), outcome)| Answer {
            query,
            part,
            outcome
        }),
        (any::<u64>(), doc()).prop_map(|(write, doc)| Put { write, doc }),
        any::<(u64, u64, Option<u64>)>().prop_map(|(write, version, newer)| Logged {
            write,
            version,
            newer
        }),
        beat.prop_map(|((serial, epoch, complete, stays, life), takes)| Beat {
            serial,
            epoch,
            complete,
            stays,
            life,
            takes
        }),
        (any::<u64>(), option::of(map())).prop_map(|(serial, map)| Grant { serial, map }),
        (any::<(u64, bool)>(), slice()).prop_map(|((ask, written_only), slice)| Fetch {
            ask,
            slice,
            written_only
        }),
        (any::<(u64, u64)>(), slice(), vec(doc(), 0..4))
            .prop_map(|((ask, bytes), slice, docs)| Chunk { ask, slice, docs: docs.into(), bytes }),
    ]
}

fn messages() -> impl Strategy<Value = Message<Live>> {
    use Refusal::{Changed, Exists, Full, Missing, Spread};
    let done = [Ok(()), Err(Exists), Err(Missing), Err(Changed), Err(Full), Err(Spread)];
    let wish = prop_oneof![
        (change(), any::<u64>()).prop_map(|(change, token)| Wish::Change(change, token)),
        any::<(u32, u32)>().prop_map(|(index, p)| Wish::Spread(index, p)),
    ];
    prop_oneof![
        8 => (any::<u32>(), of_index()).prop_map(|(index, message)| Message::Of(index, message)),
        1 => any::<(u64, u64)>().prop_map(|(serial, version)| Message::Beat { serial, version }),
        1 => (any::<u64>(), option::of(catalogue()))
            .prop_map(|(serial, catalogue)| Message::Catalogue { serial, catalogue }),
        2 => (any::<u64>(), wish).prop_map(|(serial, wish)| Message::Ask { serial, wish }),
        1 => (any::<u64>(), proptest::sample::select(done.to_vec()))
            .prop_map(|(serial, done)| Message::Told { serial, done }),
    ]
}

fn records() -> impl Strategy<Value = Record<Live>> {
    use message::Record::{Doc, Held, Kept, Known, Left, Life, Map, Target};
    let of_index = prop_oneof![
        doc().prop_map(Doc),
        slice().prop_map(Held),
        map().prop_map(Map),
        any::<u32>().prop_map(Target),
        Just(Left),
        any::<u64>().prop_map(Life),
        any::<(u32, u64)>().prop_map(|(server, life)| Known(server, life)),
        (option::of(slice()), slice()).prop_map(|(held, wanted)| Kept { held, wanted }),
    ];
    prop_oneof![
        8 => (any::<u32>(), of_index).prop_map(|(index, record)| Record::Of(index, record)),
        1 => catalogue().prop_map(Record::Catalogue),
    ]
}

fn requests() -> impl Strategy<Value = Request<Live>> {
    use message::Request::{Everywhere, Look, Ranges, Search, Spread, Stay, Write};
    let of_index = prop_oneof![
        (bytes(), option::of(span())).prop_map(|(question, within)| Search { question, within }),
        (any::<(u64, bool)>(), bytes()).prop_map(|((id, deleted), body)| Write {
            id,
            deleted,
            body
        }),
        any::<u32>().prop_map(|p| Spread { p }),
        (slice(), bytes()).prop_map(|(slice, question)| Look { slice, question }),
        bytes().prop_map(Everywhere),
        bytes().prop_map(Ranges),
        any::<bool>().prop_map(Stay),
    ];
    prop_oneof![
        7 => (any::<u32>(), of_index).prop_map(|(index, request)| Request::Of(index, request)),
        3 => change().prop_map(Request::Change),
        1 => any::<(u32, u32)>().prop_map(|(index, p)| Request::Spread(index, p)),
        1 => Just(Request::Read),
        1 => Just(Request::Leave),
    ]
}

/// How a kind of word is written and read.
struct Kind<T> {
    write: fn(&Binary, &T, &mut Vec<u8>),
    read: fn(&Binary, &[u8]) -> Option<T>,
}

const MESSAGES: Kind<Message<Live>> = Kind { write: Codec::message, read: Codec::read_message };
const RECORDS: Kind<Record<Live>> = Kind { write: Codec::record, read: Codec::read_record };
const REQUESTS: Kind<Request<Live>> = Kind { write: Codec::request, read: Codec::read_request };

impl<T: PartialEq + Debug> Kind<T> {
    fn written(&self, word: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        (self.write)(&Binary::default(), word, &mut bytes);
        bytes
    }

    fn read(&self, bytes: &[u8]) -> Option<T> {
        (self.read)(&Binary::default(), bytes)
    }

    /// The word comes back; with an end missing or a byte too many it is none.
    fn comes_back(&self, word: &T) -> Result<(), TestCaseError> {
        let mut bytes = self.written(word);
        let read = self.read(&bytes);
        prop_assert_eq!(read.as_ref(), Some(word));
        for end in 0..bytes.len() {
            prop_assert_eq!(self.read(&bytes[..end]), None, "cut at {}", end);
        }
        bytes.push(0);
        prop_assert_eq!(self.read(&bytes), None);
        Ok(())
    }

    /// Any bytes are a word or none, and a word that they are comes back.
    fn bears(&self, bytes: &[u8]) -> Result<(), TestCaseError> {
        match self.read(bytes) {
            Some(word) => self.comes_back(&word),
            None => Ok(()),
        }
    }
}

/// Bytes of words in which some are others, or gone.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![
        messages().prop_map(|word| MESSAGES.written(&word)),
        records().prop_map(|word| RECORDS.written(&word)),
        requests().prop_map(|word| REQUESTS.written(&word)),
    ];
    // Small values are letters, lengths and counts.
    let byte = || prop_oneof![0..10_u8, any::<u8>()];
    (whole, vec((any::<prop::sample::Index>(), option::weighted(0.8, byte())), 1..4)).prop_map(
        |(mut bytes, changes)| {
            for (at, change) in changes {
                let at = at.index(bytes.len().max(1));
                match change {
                    Some(byte) => bytes.iter_mut().skip(at).take(1).for_each(|one| *one = byte),
                    None => bytes.truncate(at),
                }
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn messages_come_back_whole_and_no_other_way(word in messages()) {
        MESSAGES.comes_back(&word)?;
    }

    #[test]
    fn records_come_back_whole_and_no_other_way(word in records()) {
        RECORDS.comes_back(&word)?;
    }

    #[test]
    fn requests_come_back_whole_and_no_other_way(word in requests()) {
        REQUESTS.comes_back(&word)?;
    }

    #[test]
    fn any_bytes_are_a_word_or_none(bytes in prop_oneof![
        4 => damaged(),
        1 => vec(any::<u8>(), 0..80),
    ]) {
        MESSAGES.bears(&bytes)?;
        RECORDS.bears(&bytes)?;
        REQUESTS.bears(&bytes)?;
    }
}

/// The letters of words that are drawn: of the word, and of what it says of an index.
fn letters<T: PartialEq + Debug>(
    kind: &Kind<T>,
    words: impl Strategy<Value = T>,
) -> BTreeSet<(u8, Option<u8>)> {
    let mut runner = TestRunner::deterministic();
    let draws = std::iter::repeat_with(|| words.new_tree(&mut runner).expect("a word").current());
    let written = draws.take(2_000).map(|word| kind.written(&word));
    written.map(|bytes| (bytes[0], (bytes[0] == 0).then(|| bytes[5]))).collect()
}

/// Logs and recordings are read by later versions, so letters stay; and what is drawn above has
/// all of them.
#[test]
fn every_letter_is_drawn_and_stays() {
    let all = |of_index: u8, others: u8| -> BTreeSet<(u8, Option<u8>)> {
        (0..of_index)
            .map(|letter| (0, Some(letter)))
            .chain((1..others).map(|n| (n, None)))
            .collect()
    };
    assert_eq!(letters(&MESSAGES, messages()), all(10, 5));
    assert_eq!(letters(&RECORDS, records()), all(9, 2));
    assert_eq!(letters(&REQUESTS, requests()), all(8, 5));
    let request = Request::Of(7, message::Request::Ranges(b"ring".as_slice().into()));
    assert_eq!(REQUESTS.written(&request), b"\x00\x07\0\0\0\x07\x04\0\0\0ring");
}

/// A reader makes room for so many things at once, so it believes no number beyond its bytes.
#[test]
fn a_number_that_the_bytes_cannot_hold_is_refused() {
    let count = |count: u32, least, rest: usize| {
        let bytes = [&count.to_le_bytes()[..], &[0; 63][..rest]].concat();
        In(&bytes).count(least)
    };
    assert_eq!((count(3, 21, 63), count(3, 21, 62)), (Some(3), None));
    assert_eq!((count(u32::MAX, 1, 63), count(u32::MAX, usize::MAX, 63)), (None, None));
}

/// A map by which nobody could search is refused: parts of nothing, ranges that begin at one id,
/// servers that are not there.
#[test]
fn maps_without_a_ring_are_refused() {
    let map = |p, stored, starts: Option<Arc<[u64]>>, what| {
        let (states, moving) = (vec![State::Up; 2], Some(Moving { what, switched: false }));
        let map = Map { epoch: 8, p, stored, settled: true, states, starts, moving };
        RECORDS.written(&Record::Of(1, message::Record::Map(Arc::new(map))))
    };
    let starts = |ids: [u64; 2]| -> Arc<[u64]> { ids.into() };
    let joins = || Move::Joins(1);
    assert!(RECORDS.read(&map(2, 1, Some(starts([4, 3])), joins())).is_some());
    for (what, bytes) in [
        ("p of 0", map(0, 0, None, joins())),
        ("none stored", map(2, 0, None, joins())),
        ("more stored than p", map(2, 3, None, joins())),
        ("a third server", map(2, 1, None, Move::Leaves(2))),
        ("ranges at one id", map(2, 1, Some(starts([3, 3])), joins())),
        ("borders at one id", map(2, 1, None, Move::Borders(starts([3, 3])))),
    ] {
        assert_eq!(RECORDS.read(&bytes), None, "{what}");
    }
}

#[test]
fn a_server_sends_what_its_work_found() {
    let made = Arc::new(Made::default());
    let codec = Binary::new(made.clone());
    let work = cavy_core::family::message::Work(5);
    made.keep(cavy_search::cluster::many::outer(7, work), b"found".as_slice().into());
    let outcome =
        Outcome::Done { took: Span::ZERO, backlog: Span::ZERO, found: Finding::Made(work) };
    let answer = message::Message::Answer { query: 1, part: 0, outcome };
    let mut bytes = Vec::new();
    codec.message(&Message::Of(7, answer), &mut bytes);
    let Some(Message::Of(7, message::Message::Answer { outcome, .. })) = codec.read_message(&bytes)
    else {
        panic!("an answer");
    };
    let Outcome::Done { found, .. } = outcome else { panic!("done") };
    assert_eq!(found, Finding::Bytes(b"found".as_slice().into()));
}
