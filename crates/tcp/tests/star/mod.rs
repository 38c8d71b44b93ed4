//! The smallest star: every server has its own way to a switch whose ports keep a few packets. What
//! the client sends is never lost, since each server's port gets it at the rate of one card.
#![allow(dead_code, reason = "each test takes what it needs")]

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message};
use cavy_core::laws::packet::{Application, Deeds, Links, Network, Queue};
use cavy_core::{Instant, Span};
use cavy_tcp::messages::Messages;
use cavy_tcp::{Config, Counts, RtoConfig, Schedule, Segment, Why};

pub const ROOM_BYTES: u32 = 32_768;

/// Servers that answer, and a client that waits for all of them.
pub struct Fragments {
    pub length_bytes: u32,
    pub open: u32,
    /// A message is under way that asks nothing.
    pub one_way: bool,
    /// Messages that hosts of the background have sent, each.
    pub sent: Vec<u32>,
    servers: u32,
}

/// What a host of the background sends at a time.
const BACKGROUND_BYTES: u32 = 1 << 20;

impl Application<Messages> for Fragments {
    fn effect(
        &mut self,
        node: Node,
        _: Instant,
        effect: Effect<Why>,
        deeds: &mut Deeds<Input<Segment>>,
    ) {
        match effect {
            Effect::Delivered { from, message, .. } if message.is_answer() => {
                assert_eq!(node, Node(0), "{from:?}");
                self.open -= 1;
            }
            Effect::Delivered { from, .. } if from.0 > self.servers => {
                deeds.tell(Span::ZERO, from, self.background(from.0));
            }
            Effect::Delivered { .. } if self.one_way => self.one_way = false,
            Effect::Delivered { from, message, .. } => {
                let (to, length_bytes) = (from, self.length_bytes);
                let input = Input::Answer { to, question: message, length_bytes };
                deeds.tell(Span::ZERO, node, input);
            }
            Effect::Failed { why, .. } => panic!("failed: {why:?}"),
            _ => {}
        }
    }
}

impl Fragments {
    fn background(&mut self, host: u32) -> Input<Segment> {
        let sent = &mut self.sent[(host - self.servers - 1) as usize];
        *sent += 1;
        let message = Message((1 << 40) + u64::from(*sent) * 2);
        let (to, length_bytes) = (Node(0), BACKGROUND_BYTES);
        Input::Submit { to, message, length_bytes, asks: false }
    }
}

pub struct Star {
    pub network: Network<Messages, Fragments>,
    pub servers: u32,
}

impl Star {
    pub fn new(servers: u32, fragment: u32, client: Config, server: Config) -> Star {
        Star::beside(&[], servers, fragment, client, server)
    }

    /// The same, with hosts that send to the client without a pause.
    pub fn beside(
        background: &[Config],
        servers: u32,
        fragment: u32,
        client: Config,
        server: Config,
    ) -> Star {
        let mut hosts = vec![client];
        hosts.extend((0..servers).map(|_| server));
        hosts.extend(background);
        let make = |config| Messages::new(config).expect("legal");
        let sent = vec![0; background.len()];
        let fragments =
            Fragments { length_bytes: fragment, open: 0, one_way: false, sent, servers };
        let mut network = Network::new(hosts.into_iter().map(make).collect(), fragments, 1);
        network.links = Links { bits_per_s: 1_000_000_000, delay: Span::from_us(25) };
        network.queue = Queue::Octets { limit: ROOM_BYTES.into() };
        network.room_bytes = 1_480;
        for host in servers + 1..=servers + background.len() as u32 {
            // One is queued behind the other, so that there is no pause between them.
            for _ in 0..2 {
                let input = network.application.background(host);
                network.tell(Instant::ZERO, host, input);
            }
        }
        Star { network, servers }
    }

    /// One block; how long it took.
    pub fn block(&mut self, number: u64) -> Span {
        let begun = self.network.now;
        for server in 1..=self.servers {
            let message = Message((number * 10_000 + u64::from(server)) * 2);
            let (to, length_bytes) = (Node(server), 4);
            let input = Input::Submit { to, message, length_bytes, asks: true };
            self.network.tell(begun, 0, input);
        }
        self.network.application.open = self.servers;
        let end = begun + Span::from_ms(400_000);
        while self.network.application.open > 0 {
            assert!(self.network.step(), "nobody is stuck");
            assert!(self.network.now < end, "it goes on and on");
        }
        self.network.now.since(begun)
    }

    pub fn dropped(&self) -> u64 {
        self.network.dropped
    }

    /// What the servers counted.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        let servers = self.network.machines().skip(1).take(self.servers as usize);
        servers.for_each(|host| all.add(host.counts()));
        all
    }

    pub fn timeouts(&self) -> u64 {
        self.counts().timeouts()
    }

    /// Octets that the background delivered, but for what is under way.
    pub fn background_octets(&self) -> u64 {
        let sent: u32 = self.network.application.sent.iter().map(|sent| sent - 2).sum();
        u64::from(sent) * u64::from(BACKGROUND_BYTES)
    }
}

pub fn stock() -> Config {
    let rto = RtoConfig { min: Span::from_ms(200), ..RtoConfig::FINE };
    Config::reference(rto)
}

/// A client that was told what its port holds.
pub fn scheduled() -> Config {
    turns(Some(ROOM_BYTES))
}

/// A client that learns it.
pub fn learns() -> Config {
    turns(None)
}

fn turns(room_bytes: Option<u32>) -> Config {
    let schedule = Some(Schedule { room_bytes, foreign: false });
    Config { schedule, receive_buffer_bytes: 65_535, ..stock() }
}
