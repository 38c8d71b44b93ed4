//! The example of the guide "add a protocol" as real nodes: its machine is the lab's, word for
//! word, behind the front end that clients of Redis know.
#![allow(clippy::disallowed_methods, reason = "a test of sockets waits in real time")]

#[path = "../../lab/examples/primary/protocol.rs"]
mod protocol;

use cavy_core::Span;
use cavy_core::family::Node;
use cavy_node::{Live, NoJobs, Options, Postcard, start};
use cavy_resp::request::Limits;
use cavy_resp::{Engine, Front, FrontOptions, Places, Reply};
use cavy_txn::{Layout, Request};
use protocol::Primary;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Addresses that were free a moment ago.
fn addresses() -> Vec<(Node, SocketAddr)> {
    let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    (0..).map(Node).zip(listeners.iter().map(|l| l.local_addr().unwrap())).collect()
}

fn node(id: Node, peers: &[(Node, SocketAddr)]) -> (Live<Primary<Engine>>, Front) {
    let mut options = Options::new("primary", id, peers[id.0 as usize].1);
    options.peers = peers.to_vec();
    let make = move || Primary::new(id, Engine::default());
    let live = start(options, make, Postcard, NoJobs, |_, _| {}).unwrap();
    let layout = Layout { replicas: 1, ..Layout::new(3, 1) };
    let regions = ["eu", "us", "asia"].map(String::from).to_vec();
    let handle = live.handle().clone();
    let front = FrontOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        password: None,
        places: Places { layout, regions, default_region: 0 },
        region: layout.region_of_node(id),
        client: id.0 + 1,
        clients_max: 10,
        patience: Span::from_ms(10_000),
        slow: Span::from_ms(10_000),
        limits: Limits { words: 1_000, word_bytes: 1 << 20, bytes: 1 << 20 },
        info: Box::new(String::new),
        admin: Box::new(|_| Err(Reply::err("not here"))),
        wall: handle.wall().clone(),
    };
    let submit = move |txn, answer| handle.call(Request(Arc::new(txn)), answer);
    (live, Front::start(front, Arc::new(submit)).unwrap())
}

/// Says one line to a node, as a person on telnet does, until the answer is `expected`.
fn ask(front: &Front, line: &str, expected: &str) {
    let mut stream = TcpStream::connect(front.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "{line}\r\n").unwrap();
    let (mut said, mut chunk) = (Vec::new(), [0; 256]);
    while said.len() < expected.len() {
        let length = stream.read(&mut chunk).unwrap();
        assert!(length > 0, "{line}: the connection ended");
        said.extend_from_slice(&chunk[..length]);
    }
    assert_eq!(String::from_utf8_lossy(&said), expected, "{line}");
}

#[test]
fn the_example_of_the_guide_runs_as_processes_do() {
    let peers = addresses();
    let nodes: Vec<_> = peers.iter().map(|(id, _)| node(*id, &peers)).collect();
    let front = |at: usize| &nodes[at].1;
    // What one node is told, all others know: rows are in one place.
    ask(front(1), "SET {us}:a 5", "+OK\r\n");
    ask(front(2), "INCRBY {us}:a 2", ":7\r\n");
    ask(front(0), "GET {us}:a", "$1\r\n7\r\n");
    // One transaction over three regions.
    ask(front(2), "MSET {eu}:x 1 {us}:x 2 {asia}:x 3", "+OK\r\n");
    ask(front(1), "MGET {eu}:x {us}:x {asia}:x", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    for (live, front) in nodes {
        live.handle().stop();
        front.stop();
        live.join().unwrap();
    }
}
