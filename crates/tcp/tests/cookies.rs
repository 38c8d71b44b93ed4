//! A port with as many half-open connections as it may have (RFC 4987).

use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Effect, Input};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Packet, Span};
use cavy_tcp::{Config, Congestion, Flags, Segment, Stack, Stamps};

const BACKLOG: u16 = 4;

fn stage(config: Config) -> Stage<Stack> {
    let stack = Stack::new(config).expect("a legal configuration");
    let mut stage = Stage::new(stack, Instant::from_ns(1_000_000_000), 1);
    stage.input(Input::Listen { port: 80, backlog: BACKLOG });
    stage
}

fn receive(stage: &mut Stage<Stack>, header: Segment, length: u32) -> Vec<Packet<Segment>> {
    let payload = Extent { message: Message(0), offset_bytes: 0, length_bytes: length };
    stage.receive(1, header, payload, Seen::default());
    stage.pull_all()
}

fn syn(port: u16) -> Segment {
    let mut syn = Segment::new(port, 80, 5_000, Flags::SYN);
    (syn.window, syn.mss, syn.scale, syn.sack_permitted) = (65_535, Some(1_400), Some(7), true);
    syn.stamps = Some(Stamps { value: 100, echo: 0 });
    syn
}

/// What a client says to `answer`, with ten octets.
fn thanks(answer: &Segment) -> Segment {
    let (source, destination) = (answer.destination, answer.source);
    let mut thanks = Segment::new(source, destination, 5_001, Flags::ACK);
    (thanks.ack, thanks.window) = (answer.seq.wrapping_add(1), 500);
    thanks.stamps = answer.stamps.map(|stamps| Stamps { value: 200, echo: stamps.value });
    thanks
}

#[test]
fn rfc_4987_a_burst_beyond_the_backlog_is_served() {
    let linux = Config::linux(Congestion::NewReno);
    for config in [linux, Config { stamps: None, ..linux }] {
        let mut stage = stage(config);
        let ports = 1_000..1_200;
        let mut answers = Vec::new();
        for port in ports.clone() {
            let answer = receive(&mut stage, syn(port), 0);
            assert_eq!(answer.len(), 1, "port {port}");
            answers.push(answer[0].header);
        }
        assert_eq!(stage.machine.connections(), u32::from(BACKLOG));
        assert_eq!(stage.machine.counts().cookies, 200 - u64::from(BACKLOG));
        stage.now += Span::from_ms(40);
        let mut opened = Vec::new();
        for answer in answers.iter().rev() {
            receive(&mut stage, thanks(answer), 10);
            for effect in stage.effects.drain(..) {
                if let Effect::Opened { connection, .. } = effect {
                    opened.push(connection);
                }
            }
        }
        assert_eq!(opened.len(), 200);
        let counts = stage.machine.counts();
        assert_eq!((counts.dropped, stage.machine.connections()), (0, 200));
        let facts = stage.machine.facts(opened[0]).expect("it is open");
        let agreed = config.stamps.is_some();
        assert_eq!((facts.remote_port, facts.sack, facts.stamps), (1_199, agreed, agreed));
        // 500 of its windows are 500 octets where no scale can be told.
        assert_eq!(facts.peer_window_bytes, if agreed { 500 << 7 } else { 500 });
        assert_eq!(facts.mss_bytes, if agreed { 1_388 } else { 1_400 });
    }
}

#[test]
fn rfc_4987_acknowledgements_of_what_was_never_said_are_refused() {
    let mut stage = stage(Config::linux(Congestion::NewReno));
    for port in 1_000..1_010 {
        receive(&mut stage, syn(port), 0);
    }
    let answer = receive(&mut stage, syn(2_000), 0)[0].header;
    let late = receive(&mut stage, syn(2_002), 0)[0].header;
    let forge = |change: fn(&mut Segment)| {
        let mut forged = thanks(&answer);
        change(&mut forged);
        forged
    };
    let forged = [
        forge(|one| one.ack = one.ack.wrapping_add(1 << 9)),
        forge(|one| one.source = 2_001),
        forge(|one| one.seq += 1),
        forge(|one| one.stamps = one.stamps.map(|it| Stamps { echo: it.echo ^ 0x10, ..it })),
        forge(|one| one.stamps = None),
    ];
    for one in forged {
        let said = receive(&mut stage, one, 0);
        assert!(said[0].header.flags.has(Flags::RST), "{one:?}");
    }
    receive(&mut stage, thanks(&answer), 0);
    let opened = |effect: &&Effect<_>| matches!(effect, Effect::Opened { .. });
    assert_eq!(stage.effects.iter().filter(opened).count(), 1);
    // After two minutes nothing is good any more.
    stage.now += Span::from_ms(140_000);
    assert!(receive(&mut stage, thanks(&late), 0)[0].header.flags.has(Flags::RST));
}
