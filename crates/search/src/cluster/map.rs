//! The map that all go by, and what it is made from.

use crate::cost::Cost;
use crate::ring::{Arc as Length, Id, Ring, Slice};
use crate::scheme::Roar;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::Node;

/// Whether a server is in step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// It has all writes, and answers.
    Up,
    /// It was away: it gets writes again since the map of this epoch, and does not answer.
    Behind(u64),
    /// It gets nothing and answers nothing.
    Down,
    /// It is not on the ring: it has left, and holds nothing.
    Out,
}

/// What becomes of the ring.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Move {
    /// A server leaves it `[roar 2.9]`. Whoever follows it on the ring has its range while it is
    /// away.
    Leaves(u32),
    /// A server comes back to it.
    Joins(u32),
    /// Ranges begin at these ids, by server, those of servers that are out included `[roar 2.10]`.
    Borders(Arc<[Id]>),
}

/// A move that is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Moving {
    /// Which.
    pub what: Move,
    /// Queries are planned by the new ring. Before that it is being copied for; after that writes
    /// go by both until every front end plans by the new one.
    pub switched: bool,
}

/// Who holds what, at one epoch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Map {
    /// Counts maps.
    pub epoch: u64,
    /// Queries have at least so many parts: `p_safe`.
    pub p: u32,
    /// Writes go to, and servers come to hold, the arcs of this many parts: at most `p`, so that
    /// arcs are at least as long as queries need.
    pub stored: u32,
    /// Every front end goes by the rule of writes of this map: servers may copy and drop.
    pub settled: bool,
    /// By server.
    pub states: Vec<State>,
    /// Where ranges begin, by server, those of servers that are out included; as they did when the
    /// cluster was new if borders were never moved.
    pub starts: Option<Arc<[Id]>>,
    /// What moves, if anything does: one thing at a time, and not while p changes.
    pub moving: Option<Moving>,
}

impl Map {
    /// Whether server `server` is up.
    pub fn is_up(&self, server: u32) -> bool {
        self.states[server as usize] == State::Up
    }

    /// Whether queries are planned with server `server`.
    pub fn on_ring(&self, server: u32) -> bool {
        match &self.moving {
            Some(Moving { what: Move::Leaves(own), switched }) if *own == server => !switched,
            Some(Moving { what: Move::Joins(own), switched }) if *own == server => *switched,
            _ => self.states[server as usize] != State::Out,
        }
    }

    /// Length on the wire and in a log.
    pub(super) fn bytes(&self) -> u64 {
        let starts =
            |starts: Option<&Arc<[Id]>>| starts.map_or(0, |starts| 8 * starts.len() as u64);
        let next = self.moving.as_ref().and_then(|moving| match &moving.what {
            Move::Borders(starts) => Some(starts),
            Move::Leaves(_) | Move::Joins(_) => None,
        });
        13 * self.states.len() as u64 + starts(self.starts.as_ref()) + starts(next)
    }
}

/// The rings that a map speaks of. Each server is on one, and each has all documents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rings {
    /// By these queries are planned.
    pub now: Vec<Ring>,
    /// By these documents are stored as well, while something moves.
    pub beside: Option<Vec<Ring>>,
}

impl Rings {
    fn both(&self) -> impl Iterator<Item = &Ring> {
        self.now.iter().chain(self.beside.iter().flatten())
    }

    /// The number of the ring that queries use `server` on.
    pub fn of(&self, server: u32) -> Option<usize> {
        self.now.iter().position(|ring| ring.position(server).is_some())
    }

    /// The ids that `server` has to hold with arcs for `p` parts; `None` when it is on no ring.
    /// What its ring has it hold now and beside meets: no move takes a border further.
    pub fn wants(&self, server: u32, p: u32) -> Option<Slice> {
        let arc = Length::of(p);
        let one = |ring: &Ring| Some(ring.holds(ring.position(server)?, arc));
        self.both().filter_map(one).reduce(Slice::joined)
    }

    /// Servers that store `id` with arcs for `p` parts, each once.
    pub fn holders(&self, id: Id, p: u32) -> Vec<u32> {
        let arc = Length::of(p);
        let mut all = Vec::new();
        for ring in self.both() {
            let stores = (0..ring.count()).filter(|&at| ring.stores(at, arc, id));
            for server in stores.map(|at| ring.server(at)) {
                if !all.contains(&server) {
                    all.push(server);
                }
            }
        }
        all
    }
}

/// Who is who: node 0 is the directory, then front ends, then servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Front ends, at least 1.
    pub front_ends: u32,
    /// Servers, at least 1.
    pub servers: u32,
}

impl Layout {
    /// The directory.
    pub const DIRECTORY: Node = Node(0);

    /// Front end `number`, from 0.
    pub fn front_end(self, number: u32) -> Node {
        Node(1 + number)
    }

    /// Server `number`, from 0.
    pub fn server(self, number: u32) -> Node {
        Node(1 + self.front_ends + number)
    }

    /// The number of a server, if `node` is one.
    pub fn number(self, node: Node) -> Option<u32> {
        node.0.checked_sub(1 + self.front_ends).filter(|number| *number < self.servers)
    }

    /// All nodes.
    pub fn nodes(self) -> u32 {
        1 + self.front_ends + self.servers
    }
}

/// Mistakes that can be planted, to see that they are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bugs {
    /// A write is acknowledged when most of its servers have it `[roar 0.6]`.
    pub majority: bool,
    /// A server answers whatever it is asked.
    pub unchecked: bool,
    /// Servers drop when p is raised, and do not wait for front ends.
    pub drop_early: bool,
    /// p is lowered when half of the servers have copied.
    pub p_of_most: bool,
    /// Writes go to the arcs that queries need, and not to those that are being copied.
    pub new_arcs_later: bool,
    /// Copies begin before front ends know of them.
    pub copy_early: bool,
    /// A server that was away answers at once.
    pub no_catching_up: bool,
    /// A copy replaces what is there, whatever its version.
    pub copy_revives: bool,
    /// A server answers for the id before a slice, too.
    pub closed_slices: bool,
    /// A late part is given to one neighbour, and what that one cannot answer is forgotten.
    pub one_neighbour: bool,
    /// A late answer counts beside those of the servers that were asked instead.
    pub counted_twice: bool,
    /// A border of the ring moves before what it needs is copied.
    pub move_early: bool,
    /// A server drops what is beyond its range when the border moves, and does not wait for front
    /// ends.
    pub drop_beyond: bool,
    /// A server that lost its log is taken for the one that it was.
    pub lives_unchecked: bool,
    /// What has not come when a deadline passes is not said to be lost.
    pub silent_deadlines: bool,
    /// A busy server refuses what was refused before, too.
    pub bounces_again: bool,
    /// What is asked by ranges is asked on all rings.
    pub ranges_of_all: bool,
    /// A late part is given to servers of the ring on which it is late, and of no other.
    pub one_ring_asked: bool,
    /// A write goes to the servers of one ring.
    pub one_ring_written: bool,
}

/// Parts that are sent again before they count as late `[roar 8.2]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hedge {
    /// So much later than predicted.
    pub after: Span,
    /// Of all parts at most, in percent, 1 to 100.
    pub percent: u32,
}

/// Borders that move to where all servers have the same load `[roar 2.10]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balance {
    /// Loads are looked at so often.
    pub every: Span,
    /// Nothing moves unless a server has so much more than a fair load, or others have so much more
    /// than it, in percent, at least 1.
    pub percent: u32,
}

/// Requests of one server for copies at most, however small they are.
const REQUESTS: u64 = 16;

/// What all nodes are given.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who is who.
    pub layout: Layout,
    /// How front ends plan.
    pub roar: Roar,
    /// The ranges of servers, each of which is on one ring. Each ring has all documents.
    pub ranges: Vec<Ring>,
    /// p when the cluster is new.
    pub p: u32,
    /// What front ends take servers for, until they know better.
    pub costs: Vec<Cost>,
    /// Processors of each server.
    pub cores: u16,
    /// Front ends never learn: costs are exactly so.
    pub costs_are_known: bool,
    /// A server says what it has before it by what its queries took so far, and not by the costs
    /// that it was given.
    pub backlog_is_learned: bool,
    /// Documents of the index, for what copies weigh.
    pub documents: u64,
    /// Bytes of one.
    pub document_bytes: u32,
    /// Between two beats.
    pub beat: Span,
    /// A server may answer so long after it asked.
    pub server_lease: Span,
    /// A front end may use a map so long after it asked.
    pub front_end_lease: Span,
    /// A sub-query that is so much later than predicted is sent to others, at least.
    pub margin: Span,
    /// Ids that are asked for at a time.
    pub chunk: u64,
    /// Of these so many are read, sent and taken in at a stretch, at least 1; then queries go
    /// first.
    pub piece: u64,
    /// Ids that a server has asked for and not taken in at most. So far one end of a copy may be
    /// ahead of the other one, when either waits for queries.
    pub window: u64,
    /// Written documents in a window at most, by how many a server has: with more, requests, pieces
    /// and windows are shorter. What comes at once delays queries, however few ids it has.
    pub window_documents: Option<u32>,
    /// Share of a processor that copies may have, in percent, 1 to 100; reading and merging
    /// together. They have the same share of a card.
    pub copy_percent: u32,
    /// What a server's card sends, in bytes a second; without it copies leave when they are read.
    pub card_bytes_per_s: Option<u64>,
    /// A copy waits while queries do, for a second at most.
    pub copies_wait: bool,
    /// Parts that are later than predicted are sent to others as well; none if not set.
    pub hedge: Option<Hedge>,
    /// A server that has more than that before it refuses a part that was sent nowhere before, and
    /// says what it has `[roar 2.13]`; none does if not set.
    pub bounce: Option<Span>,
    /// Borders move by load; they stay where they were if not set.
    pub balance: Option<Balance>,
    /// Planted mistakes.
    pub bugs: Bugs,
}

impl Config {
    /// A cluster of `layout` on rings of these `ranges` with the parameters of `[roar 2.14]`.
    ///
    /// # Panics
    /// When there is no ring.
    pub fn new(layout: Layout, ranges: Vec<Ring>, p: u32, costs: Vec<Cost>) -> Config {
        assert!(!ranges.is_empty(), "a cluster has at least one ring");
        let rings = ranges.len() as u32;
        Config {
            layout,
            roar: Roar { rings, ..Roar::PLAIN },
            ranges,
            p,
            costs,
            cores: 1,
            costs_are_known: false,
            backlog_is_learned: false,
            documents: 5_000_000,
            document_bytes: 500,
            beat: Span::from_ms(100),
            server_lease: Span::from_ms(500),
            front_end_lease: Span::from_ms(1_000),
            margin: Span::from_ms(20),
            chunk: 1 << 50,
            piece: 1 << 50,
            window: 1 << 50,
            window_documents: None,
            copy_percent: 20,
            card_bytes_per_s: None,
            copies_wait: true,
            hedge: None,
            bounce: None,
            balance: None,
            bugs: Bugs::default(),
        }
    }

    /// The first map.
    pub fn first_map(&self) -> Arc<Map> {
        let states = alloc::vec![State::Up; self.layout.servers as usize];
        let (p, stored) = (self.p, self.p);
        let (starts, moving) = (None, None);
        Arc::new(Map { epoch: 1, p, stored, settled: true, states, starts, moving })
    }

    /// The rings of all servers, whether they are out or not, whose ranges begin there.
    pub(super) fn whole(&self, starts: Option<&Arc<[Id]>>) -> Vec<Ring> {
        let moved = |ring: &Ring| {
            let range = |server: &u32| Some((*starts?.get(*server as usize)?, *server));
            let ranges = ring.servers().iter().map(range).collect::<Option<Vec<_>>>();
            ranges.and_then(|ranges| Ring::new(ranges).ok()).unwrap_or_else(|| ring.clone())
        };
        self.ranges.iter().map(moved).collect()
    }

    /// The rings of a map.
    pub fn rings(&self, map: &Map) -> Rings {
        let whole = self.whole(map.starts.as_ref());
        let on = |all: &Ring| all.without(|server| !map.on_ring(server));
        let now = whole.iter().map(|all| on(all).unwrap_or_else(|| all.clone())).collect();
        let Some(moving) = &map.moving else { return Rings { now, beside: None } };
        let beside = match &moving.what {
            Move::Leaves(own) | Move::Joins(own) => {
                let other = |server: u32| map.on_ring(server) == (server == *own);
                whole.iter().map(|all| all.without(other)).collect()
            }
            Move::Borders(next) => self.whole(Some(next)).iter().map(on).collect(),
        };
        match (&moving.what, beside) {
            (Move::Borders(_), Some(next)) if moving.switched => {
                Rings { now: next, beside: Some(now) }
            }
            (_, beside) => Rings { now, beside },
        }
    }

    /// The ids that `server` holds with arcs for `p` parts when all servers are on their rings.
    ///
    /// # Panics
    /// When it is on none.
    pub fn holds(&self, server: u32, p: u32) -> Slice {
        let held = |ring: &Ring| Some(ring.holds(ring.position(server)?, Length::of(p)));
        self.ranges.iter().find_map(held).expect("every server has a range")
    }

    /// The greatest p that there can be: servers of the smallest ring.
    pub fn p_most(&self) -> u32 {
        self.ranges.iter().map(|ring| ring.count() as u32).min().unwrap_or(0)
    }

    /// Requests of one server that are under way at most.
    pub(super) fn requests(&self) -> usize {
        (self.window / self.chunk.max(1)).clamp(1, REQUESTS) as usize
    }

    /// Bytes of the bulk of a slice.
    pub fn bytes(&self, slice: Slice) -> u64 {
        let documents = slice.share() * self.documents as f64;
        (documents * f64::from(self.document_bytes)) as u64
    }
}
