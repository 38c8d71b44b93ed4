//! Law 8: after warm-up no controller allocates per step.

use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Endpoint, Group, Input, Timer, Usage};
use cavy_core::{Cx, Instant, Out, Outbox, Purpose, Span, Stream};
use cavy_whatif::published::Word;
use cavy_whatif::{
    Busy, Change, Config, Governor, Limits, Published, Target, Uncoordinated, Windows,
};

const GROUPS: u32 = 40;
const TIMERS: usize = 16;

/// A world in arrays: visits of two groups, confirmations at once, timers when due.
struct Stage<C: Controller> {
    machine: C,
    outbox: Outbox<C::Effect, Timer>,
    rng: Stream,
    now: Instant,
    timers: [Option<(Timer, Instant)>; TIMERS],
    cpu: Span,
    freezes: u64,
}

impl<C: Controller> Stage<C> {
    fn new(machine: C) -> Self {
        let outbox = Outbox::with_capacity(machine.effects_max());
        let rng = Stream::keyed(1, 0, Purpose::Machine);
        let timers = [None; TIMERS];
        let now = Instant::ZERO;
        let mut stage = Stage { machine, outbox, rng, now, timers, cpu: Span::ZERO, freezes: 0 };
        stage.machine.start(&mut Cx::new(now, &mut stage.rng, &mut stage.outbox));
        stage.settle();
        stage
    }

    fn tell(&mut self, input: Input<C::Message>) {
        self.machine.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    fn settle(&mut self) {
        let mut outbox = core::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        let mut wishes: [Option<(bool, u16, u64)>; 8] = [None; 8];
        let mut count = 0;
        for out in outbox.drain() {
            match out {
                Out::Effect(Effect::Freeze { set, epoch, .. }) => {
                    wishes[count] = Some((true, set.0, epoch.0));
                    count += 1;
                    self.freezes += 1;
                }
                Out::Effect(Effect::Thaw { set, epoch }) => {
                    wishes[count] = Some((false, set.0, epoch.0));
                    count += 1;
                }
                Out::Effect(_) => {}
                Out::Arm(timer, at) => {
                    let known = self
                        .timers
                        .iter()
                        .position(|one| one.is_some_and(|(other, _)| other == timer));
                    let free = self.timers.iter().position(Option::is_none);
                    let place = known.or(free).expect("few timers");
                    self.timers[place] = Some((timer, at));
                }
                Out::Disarm(timer) => {
                    for one in &mut self.timers {
                        if one.is_some_and(|(other, _)| other == timer) {
                            *one = None;
                        }
                    }
                }
            }
        }
        self.outbox = outbox;
        for (stop, set, epoch) in wishes.into_iter().flatten() {
            let (set, epoch) =
                (cavy_core::family::probe::Set(set), cavy_core::family::probe::Epoch(epoch));
            for place in 0..self.machine.members(set).len() {
                let group = self.machine.members(set)[place];
                let at = self.now;
                self.tell(if stop {
                    Input::Frozen { group, epoch, at }
                } else {
                    Input::Thawed { group, epoch, at }
                });
            }
        }
    }

    fn step(&mut self, number: u64) {
        self.now += Span::from_us(10);
        while let Some(place) =
            self.timers.iter().position(|one| one.is_some_and(|(_, at)| at <= self.now))
        {
            let (timer, _) = self.timers[place].take().expect("it was just seen");
            self.machine.expire(timer, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
            self.settle();
        }
        self.cpu += Span::from_us(9);
        let usage = Usage { cpu: self.cpu, busy: self.cpu, runnable: self.cpu };
        self.tell(Input::Used { group: Group(0), at: self.now, usage });
        self.tell(Input::Visited { group: Group(number as u32 % 2), endpoint: Endpoint(0) });
        self.tell(Input::Completed { requests: 1 });
    }
}

fn allocates_nothing<C: Controller>(name: &str, machine: C, each: impl Fn(&mut Stage<C>, u64)) {
    let mut stage = Stage::new(machine);
    let run = |stage: &mut Stage<C>, from: u64| {
        for number in from..from + 30_000 {
            each(stage, number);
            stage.step(number);
        }
    };
    run(&mut stage, 0);
    let before = stage.freezes;
    let info = allocation_counter::measure(|| run(&mut stage, 30_000));
    assert_eq!(info.count_total, 0, "{name} allocates");
    assert!(stage.freezes > before + 20, "{name} froze {} times", stage.freezes - before);
}

#[test]
fn law_8_no_controller_allocates_after_warm_up() {
    for change in [
        Change::Count { saved_ns: vec![8_000], parallel: 2 },
        Change::Clock { share: 0.5, parallel: 1, busy: Busy::Wall },
        Change::Delivered { share: 0.3, parallel: 1 },
    ] {
        let config = Config {
            targets: vec![Target { groups: vec![Group(0)], change: change.clone() }],
            rest: (1..GROUPS).map(Group).collect(),
            limits: Limits { pause_min: Span::from_us(500), ..Limits::default() },
            windows: Windows {
                settle: Span::from_ms(1),
                length: Span::from_ms(20),
                pattern: vec![true, true, false],
            },
            hosts: 0,
        };
        let governor = Governor::new(config).expect("a legal config");
        allocates_nothing(&format!("{change:?}"), governor, |_, _| {});
    }
    let published = Published::new(Group(0), true, Span::from_us(5), 50, 8);
    allocates_nothing("published", published, |stage, number| {
        if number % 100 == 3 {
            stage.tell(Input::Met { peer: Node(1 + number as u32 % 7) });
            stage.tell(Input::Rx { from: Node(2), message: Word::Pause(number / 100) });
        }
    });
    let uncoordinated = Uncoordinated::new(Group(0), Span::from_us(9), Span::from_us(200));
    allocates_nothing("uncoordinated", uncoordinated, |_, _| {});
}
