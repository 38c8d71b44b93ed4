//! Requests counted by the kernel's counters of connections.
//!
//! Needs the right to enter a network of its own, as root has it; else it says SKIPPED.

use cavy_groups::edge::Edge;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

#[test]
fn requests_are_counted_on_connections_of_the_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let other = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let connect = |listener: &TcpListener| {
        let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("up");
        (there, listener.accept().expect("a connection").0)
    };
    let (mut early, mut early_end) = connect(&listener);
    early.write_all(b"before").expect("sent");
    let mut bytes = [0; 100];
    let _ = early_end.read(&mut bytes).expect("came");
    let mut edge = match Edge::open(address.port(), std::process::id() as i32) {
        Ok(edge) => edge,
        Err(error) => return println!("SKIPPED: sockets are not told of: {error}"),
    };
    assert_eq!((edge.connections(), edge.take().expect("a count")), (1, 0));
    let (mut late, mut late_end) = connect(&listener);
    let (mut foreign, _foreign_end) = connect(&other);
    foreign.write_all(b"to another port").expect("sent");
    for _ in 0..5 {
        for (to, from) in [(&mut early, &mut early_end), (&mut late, &mut late_end)] {
            to.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
            let _ = from.read(&mut bytes).expect("came");
            // An answer is no request.
            from.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("sent");
        }
    }
    assert_eq!(edge.take().expect("a count"), 10);
    let read = *edge.take_reads().last().expect("looks");
    assert_eq!((read.segments, read.bytes, read.ended), (10, 180, 0));
    assert_eq!((edge.connections(), edge.take().expect("a count")), (2, 0));
    drop((late, late_end));
    edge.take().expect("a count");
    assert_eq!((edge.connections(), edge.ended(), edge.total()), (1, 1, 10));
}
