//! Law 8: after warm-up no rival allocates per step.
//!
//! A machine talks to itself over a line kept in arrays, so the driver allocates nothing either.
//! Messages of all sizes come in one cycle, again and again; one packet in 61 is lost, so that
//! repair is measured too.

use crate::each_transport;
use crate::network::Rival;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message, Seen};
use cavy_core::{Cx, Instant, Out, Outbox, Packet, Purpose, Room, Span, Stream};
use cavy_homa::rivals::{Timer, Why};
use std::collections::VecDeque;

const SIZES: [u32; 6] = [100, 1_460, 9_000, 40_000, 3_000, 120_000];

struct Loop<M: Rival> {
    machine: M,
    outbox: Outbox<Effect<Why>, Timer>,
    effects: Vec<Out<Effect<Why>, Timer>>,
    timers: Vec<(Instant, Timer)>,
    line: VecDeque<(Instant, Packet<M::Header>)>,
    rng: Stream,
    now: Instant,
    sent: u64,
    submitted: u64,
    under_way: u64,
    delivered: u64,
}

impl<M: Rival> Loop<M> {
    fn new(machine: M) -> Self {
        Loop {
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            effects: Vec::with_capacity(64),
            timers: Vec::with_capacity(1_024),
            line: VecDeque::with_capacity(4_096),
            rng: Stream::keyed(1, 0, Purpose::Machine),
            now: Instant::ZERO,
            sent: 0,
            submitted: 0,
            under_way: 0,
            delivered: 0,
        }
    }

    fn input(&mut self, input: Input<M::Header>) {
        self.machine.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    fn settle(&mut self) {
        self.effects.extend(self.outbox.drain());
        for out in self.effects.drain(..) {
            match out {
                Out::Effect(Effect::Delivered { .. }) => self.delivered += 1,
                Out::Effect(Effect::Released { .. }) => self.under_way -= 1,
                Out::Effect(Effect::Failed { .. }) => panic!("nothing fails here"),
                Out::Effect(Effect::Place { .. }) => {}
                Out::Arm(timer, at) => {
                    self.timers.retain(|&(_, other)| other != timer);
                    self.timers.push((at, timer));
                }
                Out::Disarm(timer) => self.timers.retain(|&(_, other)| other != timer),
            }
        }
    }

    /// A microsecond: what is due happens, one packet leaves, up to ten messages are under way.
    fn tick(&mut self) {
        self.now += Span::from_us(1);
        while let Some(&(at, Packet { header, payload, .. })) = self.line.front()
            && at <= self.now
        {
            self.line.pop_front();
            let from = Node(0);
            self.input(Input::Rx { from, header, payload, seen: Seen::default() });
        }
        while let Some(due) = self.timers.iter().position(|&(at, _)| at <= self.now) {
            let (_, timer) = self.timers.swap_remove(due);
            self.machine.expire(timer, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
            self.settle();
        }
        if self.under_way < 10 {
            let length_bytes = SIZES[self.submitted as usize % SIZES.len()];
            let message = Message(2 * self.submitted);
            self.submitted += 1;
            self.under_way += 1;
            self.input(Input::Submit { to: Node(0), message, length_bytes, asks: false });
        }
        let room = Room { packets: 1, bytes: 1472 };
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        if let Some(packet) = self.machine.pull(room, &mut cx) {
            self.sent += 1;
            if !self.sent.is_multiple_of(61) {
                self.line.push_back((self.now + Span::from_us(5), packet));
            }
        }
        self.settle();
    }
}

#[test]
fn law_8_no_step_allocates_after_warm_up() {
    each_transport!(|name, _queue, make| {
        let mut stage = Loop::new(make());
        for _ in 0..400_000 {
            stage.tick();
        }
        let before = stage.delivered;
        let counted = allocation_counter::measure(|| {
            for _ in 0..100_000 {
                stage.tick();
            }
        });
        let delivered = stage.delivered - before;
        assert!(delivered > 300, "{name}: {delivered} messages in the measured stretch");
        assert_eq!(counted.count_total, 0, "{name}: {} bytes", counted.bytes_total);
    });
}
