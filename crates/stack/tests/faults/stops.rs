//! What stands still for a while: readers, and links.

use crate::{link, octets, pair, until, with_stack, works};
use cavy_stack::Stream;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Seconds that the environment asks for.
#[allow(clippy::disallowed_methods)] // how long to wait is the caller's to say
fn asked_s(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).filter(|&seconds| seconds > 0)
}

#[test]
fn a_reader_that_stops_stops_its_writer_and_gets_all_when_it_goes_on() {
    with_stack(
        |options| options.send_buffer_bytes = 100_000,
        |stack, _| {
            let (theirs, ours) = pair(stack);
            let all = octets(12_000_000);
            for ours_reads in [false, true] {
                thread::scope(|scope| {
                    let writer = scope.spawn(|| {
                        if ours_reads {
                            (&theirs).write_all(&all).expect("the kernel's writes");
                        } else {
                            (&ours).write_all(&all).expect("ours writes");
                        }
                    });
                    // Long enough for probes of a closed window, from 200 ms on.
                    thread::sleep(Duration::from_millis(1_500));
                    assert!(!writer.is_finished(), "nobody keeps so much");
                    let mut found = vec![0; all.len()];
                    if ours_reads {
                        (&ours).read_exact(&mut found).expect("ours reads");
                    } else {
                        (&theirs).read_exact(&mut found).expect("the kernel's reads");
                    }
                    assert!(found == all, "all octets, in order");
                });
            }
            works(&theirs, &ours);
        },
    );
}

/// Reads what is there, without waiting for more.
fn read_what_is_there(theirs: &TcpStream, ours: &Stream, ours_reads: bool) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 10_000];
    theirs.set_nonblocking(true).expect("an option");
    ours.set_timeout(Some(Duration::from_millis(20)));
    loop {
        let read = if ours_reads { (&*ours).read(&mut chunk) } else { (&*theirs).read(&mut chunk) };
        match read {
            Ok(octets) => all.extend(&chunk[..octets]),
            Err(error) => {
                let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                assert!(kinds.contains(&error.kind()), "{error}");
                break;
            }
        }
    }
    theirs.set_nonblocking(false).expect("an option");
    ours.set_timeout(Some(Duration::from_secs(300)));
    all
}

/// What tells a writer that there is room again is never sent a second time; only questions bring
/// it ([incast 2.12]). `CAVY_READER_STOPS_S=180` lets readers stop for minutes.
#[test]
fn a_lost_word_that_there_is_room_again_is_asked_for() {
    let stops = asked_s("CAVY_READER_STOPS_S").map_or(Duration::from_millis(700), |seconds| {
        println!("readers stop for {seconds} s");
        Duration::from_secs(seconds)
    });
    with_stack(
        |options| {
            options.send_buffer_bytes = 50_000;
            options.tcp.receive_buffer_bytes = 50_000;
        },
        |stack, space| {
            for ours_reads in [true, false] {
                let (theirs, ours) = pair(stack);
                theirs.set_read_timeout(Some(Duration::from_secs(300))).expect("an option");
                let all = octets(9_000_000);
                thread::scope(|scope| {
                    let writer = scope.spawn(|| {
                        if ours_reads {
                            (&theirs).write_all(&all).expect("the kernel's writes");
                        } else {
                            ours.set_timeout(None);
                            (&ours).write_all(&all).expect("ours writes");
                        }
                    });
                    thread::sleep(stops);
                    assert!(!writer.is_finished(), "nobody keeps so much");
                    // What makes room is said to a link that is down.
                    link(space, "down");
                    let mut found = read_what_is_there(&theirs, &ours, ours_reads);
                    assert!(!found.is_empty() && found.len() < all.len());
                    link(space, "up");
                    let began = cavy_clock::now();
                    let place = found.len();
                    found.resize(all.len(), 0);
                    if ours_reads {
                        (&ours).read_exact(&mut found[place..]).expect("ours reads");
                    } else {
                        (&theirs).read_exact(&mut found[place..]).expect("the kernel's reads");
                    }
                    assert!(found == all, "all octets, in order");
                    println!("all was there after {}", cavy_clock::now().since(began));
                });
                works(&theirs, &ours);
            }
        },
    );
}

#[test]
fn connections_survive_a_link_that_is_down_for_seconds() {
    with_stack(
        |_| {},
        |stack, space| {
            let (theirs, ours) = pair(stack);
            works(&theirs, &ours);
            link(space, "down");
            (&ours).write_all(b"while").expect("it is kept");
            until(stack, "several attempts", |metrics| {
                metrics.timeouts + metrics.probes > 3 && metrics.refused > 3
            });
            link(space, "up");
            let mut found = [0; 5];
            (&theirs).read_exact(&mut found).expect("it came after all");
            assert_eq!(&found, b"while");
            works(&theirs, &ours);
        },
    );
}

/// `CAVY_LINK_DOWN_S=60` takes a minute; without, it is skipped.
#[test]
fn connections_survive_a_link_that_is_down_for_long() {
    let Some(down) = asked_s("CAVY_LINK_DOWN_S") else {
        return println!("SKIPPED: CAVY_LINK_DOWN_S says no seconds");
    };
    with_stack(
        |_| {},
        |stack, space| {
            let (theirs, ours) = pair(stack);
            ours.set_timeout(Some(Duration::from_secs(300)));
            theirs.set_read_timeout(Some(Duration::from_secs(300))).expect("an option");
            link(space, "down");
            // Both sides wait with something.
            (&ours).write_all(b"again").expect("it is kept");
            (&theirs).write_all(b"there").expect("it is kept");
            thread::sleep(Duration::from_secs(down));
            link(space, "up");
            let began = cavy_clock::now();
            let mut found = [0; 5];
            (&theirs).read_exact(&mut found).expect("ours came after all");
            assert_eq!(&found, b"again");
            println!("ours came {} after the link was back", cavy_clock::now().since(began));
            (&ours).read_exact(&mut found).expect("the kernel's came after all");
            assert_eq!(&found, b"there");
            println!("the kernel's {} after it", cavy_clock::now().since(began));
            works(&theirs, &ours);
            println!("{:?}", stack.metrics());
        },
    );
}
