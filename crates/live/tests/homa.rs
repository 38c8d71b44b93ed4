//! Questions and answers over real sockets on the loopback interface: each answered exactly once,
//! or failed within its deadline.

mod homa_network;

use bytes::Bytes;
use cavy_core::Span;
use cavy_core::stream::{Purpose, Ratio, Stream};
use cavy_live::Pool;
use cavy_live::homa::{Call, CallError, Client, Handler, OpenError, Options, Peer, Reply, Server};
use cavy_live::load::clock;
use homa_network::{Faults, Relay, message, now, patient, until};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn echo() -> Handler {
    Handler::inline(|question| question.into_bytes())
}

/// A server whose questions come out of a channel, to be answered by the test.
fn manual(options: &Options) -> (Server, Receiver<(Bytes, Reply)>) {
    let (to, from): (Sender<(Bytes, Reply)>, _) = channel();
    let handler = Handler::new(move |question, reply| {
        let _ = to.send((question.into_bytes(), reply));
    });
    (Server::bind(options, handler).expect("a socket"), from)
}

fn client() -> Client {
    Client::bind(&patient()).expect("a socket")
}

/// An echo server that counts how often it carried out each question, by its bytes.
fn counting(options: &Options) -> (Server, Arc<Mutex<BTreeMap<Bytes, u32>>>) {
    let counts = Arc::new(Mutex::new(BTreeMap::new()));
    let book = counts.clone();
    let handler = Handler::inline(move |question| {
        let bytes = question.into_bytes();
        let name = bytes.slice(..bytes.len().min(16));
        *book.lock().expect("not poisoned").entry(name).or_insert(0) += 1;
        bytes
    });
    (Server::bind(options, handler).expect("a socket"), counts)
}

#[test]
fn echo_of_all_sizes() {
    let server = Server::bind(&patient(), echo()).expect("a socket");
    let client = client();
    let sizes = [
        1, 2, 100, 1_415, 1_416, 1_417, 2_832, 10_000, 39_999, 40_000, 40_001, 100_000, 999_999,
        1_000_000,
    ];
    for bytes in sizes {
        let question = message(bytes, 1);
        let answer = client.call(server.local_address(), question.clone());
        assert!(answer.as_ref() == Ok(&question), "{bytes}: {:?}", answer.map(|a| a.len()));
    }
    assert_eq!(client.counters().machine.malformed, 0);
}

#[test]
fn lag_is_how_long_calls_and_packets_waited_for_the_thread() {
    let options = Options { measure_lag: true, ..patient() };
    let slow = Duration::from_millis(60);
    // A handler that keeps its endpoint's thread, which it must not do.
    let sleepy = Handler::inline(move |question| {
        std::thread::sleep(slow);
        question.into_bytes()
    });
    let server = Server::bind(&options, sleepy).expect("a socket");
    assert!(server.lag().expect("measured").looked.is_empty());
    let client = client();
    let at = server.local_address();
    client.call(at, "alone").expect("an answer");
    // A packet that comes while the first is handled, and a call of the endpoint's own.
    let first = client.begin(at, "a", None);
    until("the first packet", || (client.counters().packets_sent > 0).then_some(()));
    std::thread::sleep(slow / 6);
    let others = [client.begin(at, "b", None), server.client().begin(at, "c", None)];
    for call in [first].into_iter().chain(others) {
        call.wait().expect("an answer");
    }
    let lag = server.lag().expect("measured");
    let (looked, sent, slow_ns) = (lag.looked, lag.sent, slow.as_nanos() as u64);
    assert!(looked.len() >= 2 && looked.min() < slow_ns / 2, "{looked:?}");
    assert!(looked.max() >= slow_ns / 2, "{} ns at most", looked.max());
    assert!(sent.max() >= slow_ns, "{} ns at most", sent.max());
    assert!(Server::bind(&patient(), echo()).expect("a socket").lag().is_none());
}

#[test]
fn empty_messages_only_where_the_configuration_allows_them() {
    let server = Server::bind(&patient(), echo()).expect("a socket");
    assert_eq!(client().call(server.local_address(), ""), Err(CallError::Empty));
    let mut options = patient();
    options.config.empty_messages = true;
    let server = Server::bind(&options, echo()).expect("a socket");
    let client = Client::bind(&options).expect("a socket");
    assert_eq!(client.call(server.local_address(), ""), Ok(Bytes::new()));
}

#[test]
fn a_message_that_is_too_long_is_refused_at_once() {
    let client = client();
    let too_long = Err(CallError::TooLong { most: 1_000_000 });
    assert_eq!(client.call(client.local_address(), vec![0; 1_000_001]), too_long);
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 1));
    assert_eq!(client.call(v6, "x"), Err(CallError::Family));
}

#[test]
fn options_out_of_range_are_errors_that_name_the_field() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::local();
        change(&mut options);
        match Client::bind(&options) {
            Err(OpenError::Option { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|o| o.server_port = 0x8000), "server_port");
    assert_eq!(refused(|o| o.client_port = 99), "client_port");
    assert_eq!(refused(|o| o.config.levels = 9), "config");
    assert_eq!(refused(|o| o.config.recovery = None), "config.recovery");
    assert_eq!(refused(|o| o.handling_max = 0), "handling_max");
    assert_eq!(refused(|o| o.unreachable_after = Some(Span::ZERO)), "unreachable_after");
    assert_eq!(refused(|o| o.refused_after = Some(Span::ZERO)), "refused_after");
}

#[test]
fn ten_thousand_small_calls_at_once_each_end_exactly_once() {
    let (server, counts) = counting(&patient());
    let client = client();
    let questions: Vec<Bytes> = (0..10_000).map(|salt| message(32, salt)).collect();
    let begin = |q: &Bytes| client.begin(server.local_address(), q.clone(), None);
    let calls: Vec<Call> = questions.iter().map(begin).collect();
    for (question, call) in questions.iter().zip(calls) {
        assert_eq!(call.wait().as_ref(), Ok(question));
    }
    let counts = counts.lock().expect("not poisoned");
    assert_eq!(counts.len(), 10_000);
    assert!(counts.values().all(|&count| count == 1));
    assert_eq!(
        until("all counted", || Some(client.counters().answered).filter(|&a| a == 10_000)),
        10_000
    );
    // Acknowledgements ride on later questions or are asked for: then nothing is kept.
    until("the server keeps nothing", || Some(()).filter(|()| server.counters().messages == 0));
    until("the machine keeps nothing", || Some(()).filter(|()| server.counters().exchanges == 0));
}

#[test]
fn a_thousand_calls_of_mixed_sizes_from_threads_and_tasks() {
    let (server, counts) = counting(&patient());
    let (client, at) = (client(), server.local_address());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let client = &client;
            scope.spawn(move || {
                let mut sizes = Stream::keyed(7, thread as u32, Purpose::Sizes);
                for round in 0..10 {
                    let salt = |at: u64| thread << 32 | round << 16 | at;
                    let questions: Vec<Bytes> = (0..25)
                        .map(|at| message(16 + sizes.below(3_000) as usize, salt(at)))
                        .chain([message(60_000, salt(99))])
                        .collect();
                    let calls: Vec<Call> =
                        questions.iter().map(|q| client.begin(at, q.clone(), None)).collect();
                    let answers = futures_executor::block_on(async {
                        let mut answers = Vec::new();
                        for call in calls {
                            answers.push(call.await);
                        }
                        answers
                    });
                    for (question, answer) in questions.iter().zip(answers) {
                        assert!(answer.as_ref() == Ok(question), "{} bytes", question.len());
                    }
                }
            });
        }
    });
    let counts = counts.lock().expect("not poisoned");
    assert_eq!(counts.len(), 4 * 10 * 26);
    assert!(counts.values().all(|&count| count == 1));
}

#[test]
fn losses_doubles_and_reordering_neither_lose_nor_double_a_call() {
    for seed in [1, 2] {
        let (server, counts) = counting(&patient());
        let ratio = |per_cent| Ratio::new(per_cent, 100).expect("a ratio");
        let faults = Faults { seed, lost: ratio(5), doubled: ratio(5), delayed: ratio(20) };
        let relay = Relay::to(server.local_address(), faults);
        let client = client();
        let mut sizes = Stream::keyed(seed, 0, Purpose::Sizes);
        let questions: Vec<Bytes> = (0..150)
            .map(|salt| {
                message(
                    16 + sizes.below(if salt % 10 == 0 { 50_000 } else { 2_000 }) as usize,
                    salt,
                )
            })
            .collect();
        for batch in questions.chunks(30) {
            let calls: Vec<Call> =
                batch.iter().map(|q| client.begin(relay.at, q.clone(), None)).collect();
            for (question, call) in batch.iter().zip(calls) {
                let answer = call.wait();
                let length = answer.as_ref().map(Bytes::len);
                assert!(answer.as_ref() == Ok(question), "{length:?} (seed {seed})");
            }
        }
        let counts = counts.lock().expect("not poisoned");
        assert_eq!(counts.len(), questions.len(), "seed {seed}");
        assert!(counts.values().all(|&count| count == 1), "carried out twice (seed {seed})");
        assert!(relay.lost.load(std::sync::atomic::Ordering::Relaxed) > 20, "seed {seed}");
    }
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error_long_before_the_deadline() {
    let (server, questions) = manual(&Options::local());
    // Silence alone; what ICMP says is in homa_unreachable.rs.
    let options = Options { unreachable_after: None, ..Options::local() };
    let client = Client::bind(&options).expect("a socket");
    let at = server.local_address();
    let calls: Vec<Call> = (0..10).map(|salt| client.begin(at, message(200, salt), None)).collect();
    let held: Vec<_> = (0..10).map(|_| questions.recv().expect("questions come")).collect();
    drop(server);
    let start = now();
    for call in calls {
        assert_eq!(call.wait(), Err(CallError::Silent));
    }
    // 1,000 ticks of a millisecond, on a machine that may be busy; the deadline is at 10 s.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    drop(held);
    assert_eq!(client.call(at, "anyone?"), Err(CallError::Silent));
}

#[test]
fn a_server_that_restarts_answers_the_calls_it_never_saw() {
    let options = patient();
    let (server, questions) = manual(&options);
    let client = client();
    let at = server.local_address();
    let calls: Vec<Call> = (0..20).map(|salt| client.begin(at, message(500, salt), None)).collect();
    // Not dropped before the server is: that would be a refusal.
    let held: Vec<_> = (0..20).map(|_| questions.recv().expect("questions come")).collect();
    drop(server);
    drop(held);
    let again = Server::bind(&Options { bind: at, ..options }, echo()).expect("the port is free");
    for (salt, call) in calls.into_iter().enumerate() {
        let answer = call.wait();
        assert!(answer == Ok(message(500, salt as u64)), "{salt}: {answer:?}");
    }
    // Counters are published when the endpoint rests, which may be after the last answer is here.
    until("the server said that it did not know them", || {
        Some(()).filter(|()| again.counters().machine.unknown_sent > 0)
    });
}

#[test]
fn the_deadline_ends_a_call_whose_server_only_says_that_it_is_busy() {
    let (server, questions) = manual(&patient());
    let client = client();
    let start = now();
    let call = client.begin(server.local_address(), "slow", Some(Duration::from_millis(150)));
    let (_, reply) = questions.recv().expect("the question comes");
    assert_eq!(call.wait(), Err(CallError::Deadline));
    let took = start.elapsed();
    assert!((150..5_000).contains(&took.as_millis()), "{took:?}");
    until("the server was asked again", || {
        Some(()).filter(|()| server.counters().machine.busy_sent > 0)
    });
    // The late answer finds nobody, and the server learns that.
    reply.send("late");
    until("the server forgets it", || Some(()).filter(|()| server.counters().exchanges == 0));
    assert_eq!(client.counters().answered, 0);
    assert_eq!(
        client.call_within(server.local_address(), "x", Duration::ZERO),
        Err(CallError::Deadline)
    );
}

#[test]
fn a_cancelled_call_leaves_nothing_behind() {
    let (server, questions) = manual(&patient());
    let client = client();
    let call = client.begin(server.local_address(), message(100, 1), None);
    let (_, reply) = questions.recv().expect("the question comes");
    call.cancel();
    until("the client forgets it", || Some(()).filter(|()| client.counters().exchanges == 0));
    reply.send(message(5_000, 2));
    until("the server forgets it", || {
        let counters = server.counters();
        Some(()).filter(|()| counters.exchanges == 0 && counters.messages == 0)
    });
}

#[test]
fn questions_wait_for_the_handler_and_those_too_many_are_refused() {
    let options = Options { handling_max: 1, waiting_max: 2, ..Options::local() };
    let (server, questions) = manual(&options);
    let client = Client::bind(&Options::local()).expect("a socket");
    let at = server.local_address();
    let mut calls: Vec<Call> = Vec::new();
    for salt in 0..5 {
        calls.push(client.begin(at, message(64, salt), None));
        until("it has arrived", || {
            Some(()).filter(|()| server.counters().machine.delivered == salt + 1)
        });
    }
    let counters = server.counters();
    assert_eq!((counters.questions, counters.refused), (1, 2));
    // The refused ones learn it while the others wait.
    let start = now();
    for call in calls.drain(3..) {
        assert_eq!(call.wait(), Err(CallError::Overloaded));
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    for call in calls {
        let (bytes, reply) = questions.recv().expect("the next question");
        reply.send(bytes.clone());
        assert_eq!(call.wait(), Ok(bytes));
    }
}

#[test]
fn a_question_that_waits_too_long_for_the_handler_is_refused() {
    let refused_after = Some(Span::from_ms(50));
    let options = Options { handling_max: 1, refused_after, ..Options::local() };
    let (server, questions) = manual(&options);
    let client = Client::bind(&Options::local()).expect("a socket");
    let at = server.local_address();
    let first = client.begin(at, message(64, 0), None);
    let (bytes, reply) = questions.recv().expect("the first question");
    let start = now();
    let others: Vec<Call> = (1..4).map(|salt| client.begin(at, message(64, salt), None)).collect();
    for call in others {
        assert_eq!(call.wait(), Err(CallError::Overloaded));
    }
    let took = start.elapsed();
    assert!((50..5_000).contains(&took.as_millis()), "{took:?}");
    // What the handler has is not given up.
    reply.send(bytes.clone());
    assert_eq!(first.wait(), Ok(bytes));
    assert!(questions.try_recv().is_err(), "a refused question was carried out");
}

#[test]
fn a_pool_that_is_full_refuses() {
    let pool = Pool::builder().workers(1).types(["only"]).queue_limit(1).build().expect("a pool");
    let only = pool.kind("only").expect("known");
    let (gate, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let handler = Handler::pooled(
        pool,
        move |_| only,
        move |question| {
            let _ = opened.lock().expect("not poisoned").recv();
            question.into_bytes()
        },
    );
    let server = Server::bind(&Options::local(), handler).expect("a socket");
    let client = Client::bind(&Options::local()).expect("a socket");
    let at = server.local_address();
    let calls: Vec<Call> = (0..8).map(|salt| client.begin(at, message(64, salt), None)).collect();
    until("six are refused", || Some(()).filter(|()| server.counters().refused >= 6));
    drop(gate);
    let outcomes: Vec<_> = calls.into_iter().map(Call::wait).collect();
    let overloaded = outcomes.iter().filter(|o| **o == Err(CallError::Overloaded)).count();
    assert_eq!(overloaded, 6, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 2);
}

#[test]
fn a_server_without_refusals_falls_silent_as_the_module_does() {
    let mut options = Options { handling_max: 1, waiting_max: 1, ..Options::local() };
    options.config.refusals = false;
    let (server, _questions) = manual(&options);
    let client = Client::bind(&Options::local()).expect("a socket");
    let at = server.local_address();
    let mut calls: Vec<Call> = Vec::new();
    for salt in 0..3 {
        calls.push(client.begin(at, message(64, salt), None));
        until("it has arrived", || {
            Some(()).filter(|()| server.counters().machine.delivered == salt + 1)
        });
    }
    assert_eq!(calls.pop().map(Call::wait), Some(Err(CallError::Silent)));
}

#[test]
fn a_handler_that_panics_or_says_nothing_gives_no_answer() {
    let handler = Handler::inline(|question| match &question.bytes()[..] {
        b"panic" => panic!("as the test wants"),
        b"nothing" => Bytes::new(),
        _ => question.into_bytes(),
    });
    let server = Server::bind(&Options::local(), handler).expect("a socket");
    let client = Client::bind(&Options::local()).expect("a socket");
    for wrong in ["panic", "nothing"] {
        let outcome = client.call(server.local_address(), wrong);
        assert_eq!(outcome, Err(CallError::Unanswered), "{wrong}");
    }
    assert_eq!(client.call(server.local_address(), "fine"), Ok(Bytes::from("fine")));
}

#[test]
fn a_pool_answers_by_type() {
    let pool = Pool::builder().workers(2).types(["short", "long"]).build().expect("a pool");
    let (short, long) = (pool.kind("short").expect("known"), pool.kind("long").expect("known"));
    let kind =
        move |q: &cavy_live::homa::Question| if q.bytes().len() < 100 { short } else { long };
    let handler = Handler::pooled(pool.clone(), kind, |question| {
        Bytes::from(question.bytes().iter().rev().copied().collect::<Vec<_>>())
    });
    let server = Server::bind(&patient(), handler).expect("a socket");
    let client = client();
    for bytes in [3, 99, 100, 5_000] {
        let question = message(bytes, 3);
        let reversed: Vec<u8> = question.iter().rev().copied().collect();
        assert!(client.call(server.local_address(), question) == Ok(Bytes::from(reversed)));
    }
}

#[test]
fn shutdown_lets_what_is_under_way_end_and_takes_nothing_new() {
    let (server, questions) = manual(&patient());
    let client = client();
    let at = server.local_address();
    let call = client.begin(at, "before", None);
    let (_, reply) = questions.recv().expect("the question comes");
    let asking = server.client();
    let closing = std::thread::spawn(move || server.shutdown(Duration::from_secs(20)));
    until("it takes no more calls", || {
        // Empty, so that it is no question.
        let outcome = asking.call(at, "");
        Some(()).filter(|()| outcome == Err(CallError::Closed))
    });
    // In one packet and in many: whoever asks now is told so, and nothing of it is handled.
    for bytes in [5, 60_000] {
        assert_eq!(client.call(at, message(bytes, 1)), Err(CallError::Overloaded));
    }
    assert!(questions.recv_timeout(Duration::from_millis(100)).is_err(), "nothing new is taken");
    reply.send("answered");
    assert_eq!(call.wait(), Ok(Bytes::from("answered")));
    closing.join().expect("it closes by itself");
}

#[test]
fn a_server_closes_while_others_go_on_asking() {
    let server = Server::bind(&patient(), echo()).expect("a socket");
    let (client, at) = (client(), server.local_address());
    assert!(client.call(at, "before").is_ok());
    let (patience, begin) = (Duration::from_secs(60), clock::now());
    let closing = std::thread::spawn(move || server.shutdown(patience));
    while !closing.is_finished() {
        let _ = client.call_within(at, "after", Duration::from_millis(20));
    }
    closing.join().expect("it closes");
    let took = clock::now().since(begin);
    assert!(took < Span::from_ms(60_000), "as soon as it has nothing left to do");
}

#[test]
fn closing_a_client_ends_its_calls() {
    let (server, questions) = manual(&patient());
    let client = client();
    let call = client.begin(server.local_address(), "x", None);
    let _kept = questions.recv().expect("the question comes");
    client.shutdown(Duration::ZERO);
    assert_eq!(call.wait(), Err(CallError::Closed));
    assert_eq!(client.call(server.local_address(), "x"), Err(CallError::Closed));
}

#[test]
fn a_hook_gets_the_outcome_once() {
    let server = Server::bind(&patient(), echo()).expect("a socket");
    let client = client();
    let (to, from) = channel();
    for _ in 0..100 {
        let to = to.clone();
        client.begin_then(server.local_address(), "hook", None, move |outcome| {
            let _ = to.send(outcome);
        });
    }
    drop(to);
    let outcomes: Vec<_> = from.iter().collect();
    assert_eq!(outcomes, vec![Ok(Bytes::from("hook")); 100]);
}

#[test]
fn too_many_calls_are_refused_and_the_others_end() {
    let (server, questions) = manual(&patient());
    let client = Client::bind(&Options { calls_max: 3, ..patient() }).expect("a socket");
    let at = server.local_address();
    let mut calls: Vec<Call> =
        (0..4).map(|salt| client.begin(at, message(9, salt), None)).collect();
    assert_eq!(calls.pop().map(Call::wait), Some(Err(CallError::Full)));
    for call in calls {
        let (bytes, reply) = questions.recv().expect("a question");
        reply.send(bytes);
        assert!(call.wait().is_ok());
    }
}

#[test]
fn a_port_that_nobody_serves_is_silent() {
    let server = Server::bind(&Options { server_port: 7, ..patient() }, echo()).expect("a socket");
    let client = Client::bind(&Options::local()).expect("a socket");
    let at = server.local_address();
    assert_eq!(client.call(at, "x"), Err(CallError::Silent));
    assert_eq!(client.call(Peer { at, port: 7 }, "x"), Ok(Bytes::from("x")));
    assert!(server.counters().wrong_port > 0);
}

#[test]
fn ipv6_carries_the_same() {
    let bind = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if UdpSocket::bind(bind).is_err() {
        println!("skipped: no IPv6 on the loopback interface");
        return;
    }
    let server = Server::bind(&Options { bind, ..patient() }, echo()).expect("a socket");
    let client = Client::bind(&Options { bind, ..patient() }).expect("a socket");
    let question = message(70_000, 6);
    assert!(client.call(server.local_address(), question.clone()) == Ok(question));
}

#[test]
fn floods_of_rubbish_neither_grow_memory_nor_stop_the_server() {
    let mut options = patient();
    options.config.limits.exchanges = 200;
    options.config.limits.peers = 20;
    options.config.limits.buffer_bytes = 4 << 20;
    if let Some(recovery) = &mut options.config.recovery {
        recovery.timeout_ticks = 20;
    }
    let server = Server::bind(&options, echo()).expect("a socket");
    let at = server.local_address();
    let mut rng = Stream::keyed(11, 0, Purpose::Test);
    for round in 0..200 {
        // 50 sockets over the whole flood, more than peers are kept.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..100 {
            let length = rng.below(120) as usize;
            let mut packet: Vec<u8> = (0..length).map(|_| rng.bits() as u8).collect();
            if rng.below(4) > 0 {
                // A right beginning: our port, a type that exists, a name that asks.
                packet.resize(length.max(80), 0);
                packet[2..4].copy_from_slice(&99_u16.to_be_bytes());
                packet[11] = 0x10 + rng.below(9) as u8;
                packet[27] &= 0xfe;
                packet[28..30].copy_from_slice(&[0, (rng.below(16)) as u8]);
            }
            let _ = socket.send_to(&packet, at);
        }
        if round % 20 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    until("the flood is over", || {
        let counters = server.counters();
        assert!(counters.exchanges <= 200 && counters.peers <= 20, "{counters:?}");
        assert!(counters.messages <= 200, "{counters:?}");
        Some(()).filter(|()| counters.exchanges == 0)
    });
    let counters = server.counters();
    assert!(counters.malformed.iter().sum::<u64>() > 100, "{counters:?}");
    assert!(counters.machine.malformed > 100, "{counters:?}");
    let answer = client().call(at, "still there?");
    assert_eq!(answer, Ok(Bytes::from("still there?")));
}

#[test]
fn whoever_has_not_shown_that_he_listens_is_sent_no_more_than_he_sent() {
    let handler = Handler::inline(|_| message(100_000, 1));
    let server = Server::bind(&patient(), handler).expect("a socket");
    let at = server.local_address();
    let victim = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    victim.set_read_timeout(Some(Duration::from_millis(300))).expect("an option");
    let question = homa_question(0x1234, b"tell me everything");
    victim.send_to(&question, at).expect("sent");
    let mut buffer = [0; 4_096];
    let mut received = 0;
    while let Ok((length, _)) = victim.recv_from(&mut buffer) {
        received += length;
    }
    assert!(received <= question.len(), "{received} for {}", question.len());
    assert!(server.counters().withheld > 10);
    // A client is a little later than later, but gets it all.
    assert!(client().call(at, "me too") == Ok(message(100_000, 1)));
}

fn homa_question(id: u64, payload: &[u8]) -> Vec<u8> {
    use cavy_core::family::packet::{Extent, Message};
    use cavy_homa::packet::{Data, Flags, Kind};
    use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr};
    let length = payload.len() as u32;
    let data = Data {
        message_bytes: length,
        incoming_bytes: length,
        ack: 0,
        cutoffs_version: 0,
        backlog: 0,
        flags: Flags::default(),
    };
    let extent = Extent { message: Message(id), offset_bytes: 0, length_bytes: length };
    let ports = Ports { source: 0x8001, destination: 99 };
    let repr = Repr { ports, kind: Kind::Data(data), extent };
    let mut header = [0; HEADER_MAX_BYTES];
    let bytes = repr.emit(&Dialect::of(&Options::local().config), &mut header);
    [&header[..bytes], payload].concat()
}

#[test]
fn an_idle_endpoint_sleeps() {
    let options = Options { deadline: Span::from_ms(1_000), ..patient() };
    let server = Server::bind(&options, echo()).expect("a socket");
    assert_eq!(client().call(server.local_address(), "x"), Ok(Bytes::from("x")));
    until("nothing is left", || Some(()).filter(|()| server.counters().exchanges == 0));
    let cpu = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
        let named = tasks.flatten().filter(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            name.trim() == format!("homa-{}", server.local_address().port())
        });
        let stat = named.map(|t| std::fs::read_to_string(t.path().join("schedstat")));
        let text = stat.flatten().next().expect("the endpoint's thread");
        text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number")
    };
    // What is remembered of finished exchanges is forgotten by ticks, for some seconds at most.
    until("ticks end", || {
        let before = cpu();
        std::thread::sleep(Duration::from_millis(200));
        Some(()).filter(|()| cpu() - before < 200_000)
    });
}

#[cfg(feature = "tower")]
#[test]
fn a_client_is_a_tower_service() {
    use std::task::{Context, Poll, Waker};
    use tower_service::Service;
    let server = Server::bind(&patient(), echo()).expect("a socket");
    let mut client = client();
    let ready = Service::poll_ready(&mut client, &mut Context::from_waker(Waker::noop()));
    assert_eq!(ready, Poll::Ready(Ok(())));
    let request = (Peer::from(server.local_address()), Bytes::from("layered"));
    let answer = futures_executor::block_on(Service::call(&mut client, request));
    assert_eq!(answer, Ok(Bytes::from("layered")));
}
