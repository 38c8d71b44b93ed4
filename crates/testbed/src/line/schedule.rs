//! When each packet is due: the part of the line that no clock, device or thread belongs to.
//!
//! Times are those of the caller. What happens on the way happens at the time it is due, not when
//! the caller looks: a caller that is late delivers late and changes nothing else.

use super::path::{Order, Passed, Path, Port, Queue, Setting, wire_bytes};
use cavy_core::{Instant, Purpose, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Hosts that a line has at most: the state of a pair is kept for all pairs.
pub const HOSTS_MAX: u16 = 256;

/// What a line holds at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Packets.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Default for Room {
    /// A second of 100 Mb/s in full packets, more than twice over.
    fn default() -> Room {
        Room { packets: 1 << 16, bytes: 256 << 20 }
    }
}

/// What became of packets, of one pair of hosts or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Counts {
    /// Came in.
    pub offered: u64,
    /// Went out, copies with them.
    pub delivered: u64,
    /// Were lost by chance.
    pub lost: u64,
    /// Were sent into a cut.
    pub cut: u64,
    /// Found no room at a port.
    pub dropped: u64,
    /// Found no room in the line: its memory is bounded.
    pub overflowed: u64,
    /// Copies that were made.
    pub copied: u64,
    /// Were made late on purpose.
    pub made_late: u64,
    /// Found more in a port than its mark.
    pub marked: u64,
}

impl Counts {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            offered: self.offered + other.offered,
            delivered: self.delivered + other.delivered,
            lost: self.lost + other.lost,
            cut: self.cut + other.cut,
            dropped: self.dropped + other.dropped,
            overflowed: self.overflowed + other.overflowed,
            copied: self.copied + other.copied,
            made_late: self.made_late + other.made_late,
            marked: self.marked + other.marked,
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            offered: self.offered - before.offered,
            delivered: self.delivered - before.delivered,
            lost: self.lost - before.lost,
            cut: self.cut - before.cut,
            dropped: self.dropped - before.dropped,
            overflowed: self.overflowed - before.overflowed,
            copied: self.copied - before.copied,
            made_late: self.made_late - before.made_late,
            marked: self.marked - before.marked,
        }
    }

    /// Packets and copies whose end is known; what is missing to all of them is on its way.
    pub fn ended(&self) -> u64 {
        self.delivered + self.lost + self.cut + self.dropped + self.overflowed
    }
}

/// A packet that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due<P> {
    /// Who sent it.
    pub from: u16,
    /// Who gets it.
    pub to: u16,
    /// When it was due.
    pub at: Instant,
    /// A port wants it marked.
    pub marked: bool,
    /// Itself.
    pub packet: P,
}

/// What changes at a time that was known before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// Which way.
    pub from: u16,
    /// Where to.
    pub to: u16,
    /// What is changed.
    pub setting: Setting,
}

/// One direction of a pair of hosts.
#[derive(Debug)]
struct Lane {
    path: Path,
    queue: Queue,
    /// When the last packet that keeps order is due.
    last_ns: u64,
    faults: Stream,
    delays: Stream,
    counts: Counts,
}

/// A packet on its way.
#[derive(Debug)]
struct Held<P> {
    from: u16,
    to: u16,
    marked: bool,
    /// It has passed the port of its receiver.
    arrived: bool,
    bytes: u32,
    packet: P,
}

/// A port of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    port: Option<Port>,
    queue: Queue,
}

/// Packets by the time they are due.
#[derive(Debug)]
pub struct Schedule<P> {
    hosts: u16,
    lanes: Vec<Lane>,
    /// From a host to the line, and from the line to a host.
    up: Vec<Own>,
    down: Vec<Own>,
    room: Room,
    held_bytes: u64,
    /// By time, then by the order in which they were scheduled.
    order: BinaryHeap<Reverse<(u64, u64, u32)>>,
    serial: u64,
    held: Vec<Option<Held<P>>>,
    free: Vec<u32>,
    /// The next one last.
    changes: Vec<Change>,
}

impl<P: Clone> Schedule<P> {
    /// A line between `hosts` hosts, all on ways that take no time.
    ///
    /// # Panics
    /// With more hosts than [`HOSTS_MAX`].
    pub fn new(hosts: u16, seed: u64, room: Room) -> Schedule<P> {
        assert!(hosts <= HOSTS_MAX, "{hosts} hosts on a line for {HOSTS_MAX}");
        let lane = |number| Lane {
            path: Path::default(),
            queue: Queue::default(),
            last_ns: 0,
            faults: Stream::keyed(seed, number, Purpose::Faults),
            delays: Stream::keyed(seed, number, Purpose::Delays),
            counts: Counts::default(),
        };
        Schedule {
            hosts,
            lanes: (0..u32::from(hosts) * u32::from(hosts)).map(lane).collect(),
            up: vec![Own::default(); hosts.into()],
            down: vec![Own::default(); hosts.into()],
            room,
            held_bytes: 0,
            order: BinaryHeap::new(),
            serial: 0,
            held: Vec::new(),
            free: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Hosts.
    pub fn hosts(&self) -> u16 {
        self.hosts
    }

    fn lane(&mut self, from: u16, to: u16) -> &mut Lane {
        &mut self.lanes[usize::from(from) * usize::from(self.hosts) + usize::from(to)]
    }

    /// What a way is like now.
    ///
    /// # Panics
    /// For a host that there is not, as all that name one.
    pub fn path(&self, from: u16, to: u16) -> &Path {
        &self.lanes[usize::from(from) * usize::from(self.hosts) + usize::from(to)].path
    }

    /// What became of the packets of a pair.
    pub fn counts(&self, from: u16, to: u16) -> &Counts {
        &self.lanes[usize::from(from) * usize::from(self.hosts) + usize::from(to)].counts
    }

    /// What became of all packets.
    pub fn all_counts(&self) -> Counts {
        self.lanes.iter().fold(Counts::default(), |sum, lane| sum.plus(&lane.counts))
    }

    /// From now on a way is like this. What is under way stays as it was.
    pub fn set(&mut self, from: u16, to: u16, path: Path) {
        self.lane(from, to).path = path;
    }

    /// From now on this is changed of a way.
    pub fn change(&mut self, from: u16, to: u16, setting: &Setting) {
        setting.apply(&mut self.lane(from, to).path);
    }

    /// From now on what a host sends passes `up` first, and what it gets passes `down` last.
    pub fn set_ports(&mut self, host: u16, up: Option<Port>, down: Option<Port>) {
        self.up[usize::from(host)].port = up;
        self.down[usize::from(host)].port = down;
    }

    /// Changes that come by themselves, besides those that are to come already.
    pub fn plan(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.changes.extend(changes);
        // Of two at one time the one that was named first comes first.
        self.changes.reverse();
        self.changes.sort_by_key(|change| Reverse(change.at));
    }

    fn change_until(&mut self, now: Instant) {
        while let Some(change) = self.changes.pop_if(|change| change.at <= now) {
            self.change(change.from, change.to, &change.setting);
        }
    }

    /// Packets that are under way.
    pub fn under_way(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// A packet of `bytes` bytes of IP comes from a host at `now`, which is not before that of the
    /// call before. Gives it back when it goes nowhere.
    pub fn offer(
        &mut self,
        now: Instant,
        (from, to): (u16, u16),
        bytes: u32,
        packet: P,
    ) -> Option<P> {
        self.change_until(now);
        let wire = wire_bytes(bytes);
        let own = &mut self.up[usize::from(from)];
        let passed = match &own.port {
            Some(port) => own.queue.pass(port, now.as_ns(), wire),
            None => Passed::Left { at_ns: now.as_ns(), marked: false },
        };
        let lane = self.lane(from, to);
        lane.counts.offered += 1;
        // As many draws for each packet, whatever becomes of it: a change of one thing does not
        // shift the others.
        let [lost, copied, late] = [(); 3].map(|()| lane.faults.unit());
        let delays = [(); 2].map(|()| lane.delays.bits());
        if lane.path.cut {
            lane.counts.cut += 1;
            return Some(packet);
        }
        let Passed::Left { at_ns: mut left_ns, mut marked } = passed else {
            lane.counts.dropped += 1;
            return Some(packet);
        };
        if let Some(port) = lane.path.port {
            let Passed::Left { at_ns, marked: here } = lane.queue.pass(&port, left_ns, wire) else {
                lane.counts.dropped += 1;
                return Some(packet);
            };
            (left_ns, marked) = (at_ns, marked || here);
        }
        // `unit` is never zero, so nothing is lost at a ratio of 0 and all at 1.
        if lost <= lane.path.loss_ratio {
            lane.counts.lost += 1;
            return Some(packet);
        }
        let late = late <= lane.path.late_ratio;
        lane.counts.made_late += u64::from(late);
        let at_ns = lane.due_ns(left_ns, delays[0], late);
        let copy_ns =
            (copied <= lane.path.copy_ratio).then(|| lane.due_ns(left_ns, delays[1], false));
        let copy = copy_ns.map(|at_ns| (at_ns, packet.clone()));
        let held = |packet| Held { from, to, marked, arrived: false, bytes, packet };
        let back = self.hold(at_ns, held(packet)).map(|held| held.packet);
        if let Some((at_ns, packet)) = copy {
            let lane = self.lane(from, to);
            lane.counts.copied += 1;
            self.hold(at_ns, held(packet));
        }
        back
    }

    /// Keeps a packet that has just come in until it is at the end of its way, or gives it back.
    fn hold(&mut self, at_ns: u64, held: Held<P>) -> Option<Held<P>> {
        let bytes = self.held_bytes + u64::from(held.bytes);
        if self.under_way() >= self.room.packets || bytes > self.room.bytes {
            self.lane(held.from, held.to).counts.overflowed += 1;
            return Some(held);
        }
        self.held_bytes = bytes;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.held.push(None);
                // There are fewer packets than `Room::packets`.
                (self.held.len() - 1) as u32
            }
        };
        self.held[slot as usize] = Some(held);
        self.schedule(at_ns, slot);
        None
    }

    fn schedule(&mut self, at_ns: u64, slot: u32) {
        self.order.push(Reverse((at_ns, self.serial, slot)));
        self.serial += 1;
    }

    /// When something is to be done next: a packet is due, or a way changes.
    pub fn next(&self) -> Option<Instant> {
        let packet = self.order.peek().map(|Reverse((at_ns, ..))| Instant::from_ns(*at_ns));
        let change = self.changes.last().map(|change| change.at);
        packet.into_iter().chain(change).min()
    }

    /// The next packet that is due by `now`. `dropped` gets those that find no room at the port of
    /// their receiver.
    pub fn take(&mut self, now: Instant, mut dropped: impl FnMut(P)) -> Option<Due<P>> {
        while let Some(&Reverse((at_ns, _, slot))) = self.order.peek() {
            if at_ns > now.as_ns() {
                break;
            }
            self.order.pop();
            let Some(held) = &mut self.held[slot as usize] else { continue };
            let to = &mut self.down[usize::from(held.to)];
            if let (Some(port), false) = (&to.port, held.arrived) {
                held.arrived = true;
                if let Passed::Left { at_ns, marked } =
                    to.queue.pass(port, at_ns, wire_bytes(held.bytes))
                {
                    held.marked |= marked;
                    self.schedule(at_ns, slot);
                    continue;
                }
                if let Some(held) = self.release(slot) {
                    self.lane(held.from, held.to).counts.dropped += 1;
                    dropped(held.packet);
                }
                continue;
            }
            let Some(Held { from, to, marked, packet, .. }) = self.release(slot) else { continue };
            let counts = &mut self.lane(from, to).counts;
            counts.delivered += 1;
            counts.marked += u64::from(marked);
            return Some(Due { from, to, at: Instant::from_ns(at_ns), marked, packet });
        }
        self.change_until(now);
        None
    }

    fn release(&mut self, slot: u32) -> Option<Held<P>> {
        let held = self.held[slot as usize].take()?;
        self.free.push(slot);
        self.held_bytes -= u64::from(held.bytes);
        Some(held)
    }
}

impl Lane {
    /// When a packet that left at `left_ns` is at the other end; `random` are 64 random bits.
    #[inline]
    fn due_ns(&mut self, left_ns: u64, random: u64, late: bool) -> u64 {
        let jitter_ns = self.path.jitter.as_ns();
        // The bias of a multiplication of 64 bits is below one in 10^9 for jitters below a second.
        let values = 2 * u128::from(jitter_ns) + 1;
        let drawn = ((u128::from(random) * values) >> 64) as u64;
        let delay_ns = (self.path.one_way.as_ns() + drawn).saturating_sub(jitter_ns);
        if late {
            return left_ns + delay_ns + self.path.late_by.as_ns();
        }
        let mut due_ns = left_ns + delay_ns;
        if self.path.order == Order::Kept {
            due_ns = due_ns.max(self.last_ns);
            self.last_ns = due_ns;
        }
        due_ns
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
