//! The machine of a node, and beside it the index that does what the machine decides: documents
//! that it logs are taken in, ids that it gives up are forgotten.

use super::content::{Bytes, Live, Made};
use crate::engine::entry::Entry;
use crate::engine::question::Question;
use crate::engine::{Engine, aside};
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Input, Talker, Work};
use cavy_core::{Cx, Machine, Out, Outbox, Span};
use cavy_node::Jobs;
use cavy_search::cluster::many::{Many, Message, Record, Timer, Words};
use cavy_search::cluster::{Config, Job, message};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A node's machine, which tells the index what it stores.
#[derive(Debug)]
pub struct Keeper {
    many: Many<Live>,
    /// Of servers: the index, and what copies take.
    server: Option<(Arc<Engine>, Arc<Made>)>,
    outbox: Outbox<Effect<Words<Live>>, Timer>,
}

impl Keeper {
    /// The machine of `node`; a server's has an index.
    pub fn new(config: Config, node: Node, server: Option<(Arc<Engine>, Arc<Made>)>) -> Keeper {
        let many = Many::new(config, node);
        let outbox = Outbox::with_capacity(many.effects_max());
        Keeper { many, server, outbox }
    }

    /// The machine itself.
    pub fn many(&self) -> &Many<Live> {
        &self.many
    }

    fn taken(engine: &Engine, record: &Record<Live>, before: &Many<Live>) {
        match record {
            Record::Of(index, message::Record::Doc(doc)) => {
                // Front ends write what can be read; something else has no fields.
                let entry = Entry::decode(&doc.body).unwrap_or_else(|| Entry {
                    id: String::new(),
                    count: 0,
                    seq_no: 0,
                    at_once: false,
                    fields: Vec::new(),
                    source: Bytes::from([].as_slice()),
                });
                engine.index(*index).put(doc.id, doc.version, doc.deleted, entry);
            }
            Record::Of(index, message::Record::Held(slice)) => {
                engine.index(*index).hold(*slice);
            }
            Record::Of(index, message::Record::Kept { held, wanted }) => {
                engine.index(*index).keep(*held, *wanted);
            }
            Record::Of(index, message::Record::Left) => engine.forget(*index),
            Record::Of(..) => {}
            Record::Catalogue(catalogue) => {
                let gone = |number: &u32| catalogue.of(*number).is_none();
                let known = before.catalogue().indices.values().map(|index| index.number);
                known.filter(gone).for_each(|number| engine.forget(number));
            }
        }
    }

    /// One step; `copies` if documents came that are copied.
    fn step(
        &mut self,
        copies: bool,
        cx: &mut Cx<'_, Effect<Words<Live>>, Timer>,
        step: impl FnOnce(&mut Many<Live>, &mut Cx<'_, Effect<Words<Live>>, Timer>),
    ) {
        let Some((engine, made)) = self.server.clone() else { return step(&mut self.many, cx) };
        let began = aside::processor_ns();
        let mut gives = false;
        let (now, wall) = (cx.now(), cx.wall());
        let before = self.many.catalogue().clone();
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        step(&mut self.many, &mut Cx::new(now, cx.rng(), &mut outbox).with_wall(wall));
        for out in outbox.drain() {
            match out {
                Out::Arm(timer, at) => cx.arm(timer, at),
                Out::Disarm(timer) => cx.disarm(timer),
                Out::Effect(effect) => {
                    gives |= matches!(&effect, Effect::Send { message, .. } if is_chunk(message));
                    if let Effect::Store { record, .. } = &effect {
                        match record {
                            Record::Catalogue(catalogue) => before
                                .indices
                                .values()
                                .map(|index| index.number)
                                .filter(|number| catalogue.of(*number).is_none())
                                .for_each(|number| engine.forget(number)),
                            record => Keeper::taken(&engine, record, &self.many),
                        }
                    }
                    cx.emit(effect);
                }
            }
        }
        self.outbox = outbox;
        let took = aside::processor_ns().saturating_sub(began);
        match (copies, gives) {
            (true, _) => made.taken.add(took),
            (false, true) => made.given.add(took),
            (false, false) => {}
        }
    }
}

/// Documents that are copied.
fn is_chunk(message: &Message<Live>) -> bool {
    matches!(message, Message::Of(_, message::Message::Chunk { .. }))
}

impl Machine for Keeper {
    type Input = Input<Words<Live>>;
    type Effect = Effect<Words<Live>>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.many.effects_max()
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<Words<Live>>, Timer>) {
        self.step(false, cx, |many, cx| many.start(cx));
    }

    fn handle(&mut self, input: Input<Words<Live>>, cx: &mut Cx<'_, Effect<Words<Live>>, Timer>) {
        if let (Some((engine, _)), Input::Replay { record, .. }) = (&self.server, &input) {
            Keeper::taken(engine, record, &self.many);
        }
        let copies = matches!(&input, Input::Rx { message, .. } if is_chunk(message));
        self.step(copies, cx, |many, cx| many.handle(input, cx));
    }

    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Words<Live>>, Timer>) {
        self.step(false, cx, |many, cx| many.expire(timer, cx));
    }

    fn check(&self) {
        self.many.check();
    }
}

impl Talker for Keeper {
    type Protocol = Words<Live>;

    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}

/// Does the jobs of a server.
#[derive(Debug)]
pub struct Hands {
    engine: Arc<Engine>,
    made: Arc<Made>,
}

impl Hands {
    /// Of a server with this index, which leaves what it finds in `made`.
    pub fn new(engine: Arc<Engine>, made: Arc<Made>) -> Hands {
        Hands { engine, made }
    }
}

impl Jobs<Words<Live>> for Hands {
    fn run(&self, work: Work, (index, job): &(u32, Job<Live>), _: &AtomicBool) {
        match job {
            Job::Scan(slice, question) => {
                // Front ends want to know how long it takes here, where others use the processor,
                // too, or a quota lets it have a part of one.
                let (began, own) = (Instant::now(), aside::processor_ns());
                let finding = match serde_json::from_slice::<Question>(question) {
                    Ok(question) => self.engine.index(*index).answer(*slice, &question),
                    Err(error) => crate::engine::question::Finding::Failed(error.to_string()),
                };
                let bytes = serde_json::to_vec(&finding).unwrap_or_default();
                self.made.keep(work, bytes.into());
                let own = aside::processor_ns().saturating_sub(own);
                aside::add((began.elapsed().as_nanos() as u64).saturating_sub(own));
            }
            // The machine has the documents; finding the bytes is nothing. Sending what was read
            // before counts as work of the copy.
            Job::Read(_) => aside::add(self.made.given.take()),
            // What was copied is indexed and merged now, so that it counts as work of the copy, as
            // what it took to log it does.
            Job::Merge(_) => {
                let index = self.engine.index(*index);
                let _ = index.refresh_aside();
                while index.merge() == Ok(true) {}
                aside::add(self.made.taken.take());
            }
        }
    }

    fn done_elsewhere(&self) -> Span {
        aside::spent()
    }

    /// Queries do not wait for what is copied.
    fn gives_way(&self, (_, job): &(u32, Job<Live>)) -> bool {
        matches!(job, Job::Merge(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_node::Codec;
    use cavy_search::ring::Slice;

    #[test]
    fn copies_are_charged_with_what_no_job_took() {
        let made = Arc::new(Made::default());
        let hands = Hands::new(Arc::new(Engine::new(0)), made.clone());
        let took = |job: Job<Live>| {
            hands.run(Work(1), &(1, job), &AtomicBool::new(false));
            Jobs::<Words<Live>>::done_elsewhere(&hands)
        };
        let slice = Slice::new(0, 1);
        made.given.add(5_000_000);
        made.taken.add(70_000_000);
        let (five, seventy) = (Span::from_ms(5), Span::from_ms(70));
        assert!((five..seventy).contains(&took(Job::Read(slice))), "what was sent");
        assert!(took(Job::Merge(slice)) >= seventy, "what was logged");
        assert!(took(Job::Read(slice)) < five && took(Job::Merge(slice)) < five, "once");
    }

    #[test]
    fn records_of_what_is_held_come_back() {
        let codec = super::super::codec::Binary::default();
        for held in [None, Some(Slice::new(4, 9))] {
            let kept = message::Record::Kept { held, wanted: Slice::new(u64::MAX, 7) };
            let record = Record::Of(3, kept);
            let mut bytes = Vec::new();
            Codec::record(&codec, &record, &mut bytes);
            assert_eq!(Codec::read_record(&codec, &bytes), Some(record));
        }
    }
}
