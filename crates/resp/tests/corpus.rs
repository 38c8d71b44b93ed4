//! The corpora of the fuzzers `resp` and `snapshot`.

#[path = "../../../fuzz/targets/resp.rs"]
mod requests;
#[path = "../../../fuzz/targets/snapshot.rs"]
mod snapshot;

use cavy_core::family::Node;
use cavy_node::{Codec, Postcard};
use cavy_txn::dast::message::{Acceptor, Attempt, Ballot, Body, CrtState, Done, Pending, Snapshot};
use cavy_txn::dast::{Message, Words};
use cavy_txn::registers::{add, copy};
use cavy_txn::store::Row;
use cavy_txn::{Given, Key, PieceResult, Shard, Ts, Txn, TxnId, Value, Var};
use std::path::PathBuf;
use std::sync::Arc;

fn over(name: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut seen = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(file.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 3, "the corpus in {} is thin", folder.display());
}

#[test]
fn requests_of_the_corpus() {
    over("resp", requests::run);
}

#[test]
fn snapshots_of_the_corpus() {
    over("snapshot", snapshot::run);
}

/// A snapshot with something in each of its parts.
fn full() -> Vec<u8> {
    let id = |number| TxnId { client: 3, number };
    let ts = |t| Ts { t, k: t, n: 4 };
    let key = Key::new(1, 7);
    let attempt = Attempt { id: id(9), coordinator: Node(2), round: 1 };
    let waiting =
        Arc::new(Txn::new(id(9), 1, copy((Shard(0), key), (Shard(1), key), Var(2)).to_vec()));
    let mut given = Given::new();
    given.set(Var(2), Value::Texts([Arc::from(&b"a"[..]), Arc::from(&b""[..])].into()));
    let result = vec![Value::Int(-1), Value::Bytes(Arc::from(&b"\0\xff"[..]))];
    let results = vec![PieceResult { piece: 0, result, ops: Vec::new() }];
    let row = |value| Row { value, writer: id(1), at: ts(5) };
    let pending = Pending {
        txn: waiting.clone(),
        ts: ts(900),
        coordinator: Node(2),
        crt: Some(attempt),
        leader: Node(1),
        certain: true,
        begun: true,
        results: results.clone(),
        given: given.clone(),
        aborted: false,
    };
    let plain = Arc::new(Txn::new(id(10), 2, vec![add(Shard(0), key, 1 << 40)]));
    let queued = Pending { txn: plain, crt: None, begun: false, ..pending.clone() };
    let accepted = Some((Ballot { round: 2, node: 19 }, None));
    let snapshot = Snapshot {
        number: 7,
        rows: Some(vec![
            (key, row(Some(Value::Ints([1, -2].into())))),
            (Key::new(2, 0), row(None)),
        ]),
        done: vec![(
            id(8),
            Done { at: ts(800), results: results.into(), gives: given.clone(), aborted: true },
        )],
        pending: vec![pending, queued],
        crts: vec![CrtState {
            attempt,
            a: ts(850),
            f: Some(ts(900)),
            txn: Some(waiting),
            waits: false,
        }],
        holds: vec![(attempt, ts(850))],
        decisions: vec![(attempt, Acceptor { promised: Ballot::FIRST, accepted, orphan: true })],
        given_away: vec![(id(7), (ts(700), given))],
        high: ts(880),
    };
    let message = Message { view: 7, body: Body::Snapshot(Arc::new(snapshot)) };
    let mut bytes = Vec::new();
    Codec::<Words>::message(&Postcard, &message, &mut bytes);
    bytes
}

/// Torn at every byte, with every byte turned, and followed by more: it is read as what it is, or
/// refused.
#[test]
fn snapshots_that_are_damaged_anywhere_are_no_fault() {
    let whole = full();
    snapshot::run(&whole);
    for at in 0..whole.len() {
        snapshot::run(&whole[..at]);
        for turn in [1, 0x80, 0xff] {
            let mut turned = whole.clone();
            turned[at] ^= turn;
            snapshot::run(&turned);
        }
    }
    snapshot::run(&[whole.as_slice(), &[0]].concat());
}

/// A length of 2^60 rows in front of nothing asks for no memory: it ends at once.
#[test]
fn lengths_that_lie_cost_nothing() {
    let whole = full();
    // The number of rows stands behind the view, the kind of message, the number and `Some`.
    let rows = whole.iter().skip(1).position(|&byte| byte == 2).expect("two rows") + 1;
    let mut lying = whole[..rows].to_vec();
    lying.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    lying.extend(&whole[rows + 1..]);
    snapshot::run(&lying);
}

#[test]
#[ignore = "writes the first files of the corpus anew"]
fn write_the_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let whole = full();
    let mut turned = whole.clone();
    turned[whole.len() / 3] ^= 0xff;
    let mut long = whole[..5].to_vec();
    long.extend([0xff; 9]);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in [
        ("whole", &whole[..]),
        ("torn", &whole[..whole.len() * 2 / 3]),
        ("turned", &turned),
        ("long", &long),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
