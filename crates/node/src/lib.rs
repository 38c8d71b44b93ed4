//! The live world of the message family: one process a node, real sockets, a real disk.
//!
//! **Problem.** A protocol whose nodes talk in whole messages must meet what the lab only
//! describes: connections that end in the middle of a frame, processes that are killed, disks that
//! tear, clocks that step.
//!
//! **Promise.** A machine that keeps the rules of [`cavy_core::family::message`] runs here as it
//! is. Channels keep order and repeat nothing over any number of reconnects, or both ends are told
//! that they broke; a peer that lost its memory breaks them. A slow or dead peer holds up nobody.
//! What was told to be stored is there after a crash, or the node refuses to start and names the
//! record. Each step can be recorded, and a fresh machine then decides the same. Hostile bytes cost
//! bounded memory, and a node without the cluster's key is refused.
//!
//! **Not here.** No protocol, no front end, no encryption. Answers are not kept: a client whose
//! node dies asks again, with the same id if the protocol has one.
//!
//! # Ten lines
//!
//! ```
//! # use cavy_core::family::Node;
//! # use cavy_core::family::message::{Effect, Input, Message, Protocol, Talker};
//! # use cavy_core::{Cx, Machine};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
//! # struct Word(u64);
//! # impl Message for Word { fn wire_bytes(&self) -> u64 { 8 } }
//! # #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
//! # struct Words;
//! # impl Protocol for Words {
//! #     type Message = Word; type Request = Word; type Response = Word; type Record = Word;
//! #     type Job = (); type Group = (); type Note = ();
//! # }
//! # struct Echo;
//! # impl Machine for Echo {
//! #     type Input = Input<Words>; type Effect = Effect<Words>; type Timer = ();
//! #     fn effects_max(&self) -> usize { 1 }
//! #     fn start(&mut self, _: &mut Cx<'_, Effect<Words>, ()>) {}
//! #     fn expire(&mut self, _: (), _: &mut Cx<'_, Effect<Words>, ()>) {}
//! #     fn handle(&mut self, input: Input<Words>, cx: &mut Cx<'_, Effect<Words>, ()>) {
//! #         if let Input::Call { call, request } = input {
//! #             cx.emit(Effect::Reply { call, response: request });
//! #         }
//! #     }
//! # }
//! # impl Talker for Echo { type Protocol = Words; fn members(&self, _: ()) -> &[Node] { &[] } }
//! use cavy_node::{NoJobs, Options, Postcard, start};
//!
//! // `Echo` is a machine of the family whose words have serde's traits.
//! let listen = "127.0.0.1:0".parse()?;
//! let options = Options::new("example", Node(0), listen);
//! let node = start(options, || Echo, Postcard, NoJobs, |_, _| {})?;
//! let (tell, told) = std::sync::mpsc::channel();
//! node.handle().call(Word(7), move |answer| drop(tell.send(answer)));
//! assert_eq!(told.recv()?, Word(7));
//! node.handle().stop();
//! node.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A cluster is several of these: each lists the same `peers`, its own [`Options::log`] and, for
//! distances without privileges, [`Options::links`]. [`Handle`] is for front ends: it asks, looks
//! at the machine, reads [`Figures`], cuts links and steps the clock.
//!
//! # Threads
//!
//! One steps the machine, one carries (`carrier`: all sockets), one appends to the log, one writes
//! the recording, [`Options::workers`] do [`Jobs`], and one does those that give way. Where
//! [`Options::links`] has delays, the first one carries as well. Nothing that the machine asks for
//! makes it wait.
//!
//! **Reading order.** [`Options`], [`start`], [`Handle`]; [`Codec`], [`Jobs`]; then `world` (the
//! steps), `channel` (what two ends agree on), `frame`, `carrier`, [`log`], [`record`].

mod carrier;
mod channel;
mod codec;
mod figures;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod hostile;
mod inbox;
mod links;
pub mod log;
pub mod record;
mod timers;
mod wall;
mod work;
mod world;

pub use codec::{Codec, Postcard};
pub use figures::{Figures, Spans};
pub use links::{Links, Way};
pub use log::{Durable, LogError, LogOptions};
pub use record::{ReplayError, Replayed, replay};
pub use wall::{Skew, Wall};
pub use work::{Jobs, NoJobs};

use carrier::{Carrier, CarrierOptions, Outward, Started};
use cavy_core::family::Node;
use cavy_core::family::message::{Protocol, Talker};
use cavy_core::{Purpose, Span, Stream};
use inbox::{Event, Inbox};
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use world::{Stepper, World};

/// A protocol whose words go from thread to thread.
pub trait Portable:
    Protocol<
        Message: Send,
        Request: Send,
        Response: Send,
        Record: Send,
        Job: Send + Sync,
        Group: Send,
        Note: Send,
    > + Send
    + 'static
{
}

impl<P> Portable for P where
    P: Protocol<
            Message: Send,
            Request: Send,
            Response: Send,
            Record: Send,
            Job: Send + Sync,
            Group: Send,
            Note: Send,
        > + Send
        + 'static
{
}

/// How a node is run. [`Options::new`] has defaults for all but the first three.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster: nodes of another name are refused.
    pub cluster: String,
    /// The secret of the cluster; nodes without it are refused. Empty: the name alone.
    pub key: Vec<u8>,
    /// Counts the forms of the protocol's words. Nodes and logs of another form are refused.
    pub format: u32,
    /// Who this node is.
    pub node: Node,
    /// Where it listens, TCP and UDP. Port 0 takes any, see [`Handle::address`].
    pub listen: SocketAddr,
    /// All nodes and where they listen; this one may be among them.
    pub peers: Vec<(Node, SocketAddr)>,
    /// Its log. Without one, records are stored at once and forgotten with the process.
    pub log: Option<LogOptions>,
    /// A group of records waits so long for more; the time of a sync is used in any case.
    pub gather: Span,
    /// It has lived before and its log is lost: the machine is told that it recovered, with nothing
    /// to replay.
    pub lost_log: bool,
    /// How wrong its wall clock is.
    pub skew: Skew,
    /// The network in the carrier.
    pub links: Links,
    /// The seed of the machine's random stream.
    pub seed: u64,
    /// Threads for jobs. With 0, jobs end at once, unfinished.
    pub workers: usize,
    /// Bytes that are kept for a peer until it has acknowledged them; more breaks the channel.
    pub kept_bytes_max: usize,
    /// Longest message.
    pub message_bytes_max: usize,
    /// Where steps are recorded.
    pub record: Option<PathBuf>,
    /// Words for the head of the recording: how to build the machine.
    pub about: String,
}

impl Options {
    /// A node alone, without a log, on the machine's own clock.
    pub fn new(cluster: impl Into<String>, node: Node, listen: SocketAddr) -> Options {
        Options {
            cluster: cluster.into(),
            key: Vec::new(),
            format: 1,
            node,
            listen,
            peers: Vec::new(),
            log: None,
            gather: Span::ZERO,
            lost_log: false,
            skew: Skew::default(),
            links: Links::new(),
            seed: 1,
            workers: 0,
            kept_bytes_max: 64 << 20,
            message_bytes_max: 256 << 20,
            record: None,
            about: String::new(),
        }
    }
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its address cannot be had.
    #[error("node {} cannot listen on {address}: {error}", node.0)]
    Listen {
        /// Who.
        node: Node,
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Its log cannot be used.
    #[error("the log in {} cannot be used: {error}", folder.display())]
    Log {
        /// Where it is.
        folder: PathBuf,
        /// Why.
        error: LogError,
    },
    /// A record of the log is none of this protocol.
    #[error("record {record} of the log in {} is no record of this protocol", folder.display())]
    Record {
        /// Where it is.
        folder: PathBuf,
        /// Which.
        record: u64,
    },
    /// The recording cannot be written.
    #[error("the recording {} cannot be written: {error}", path.display())]
    Recording {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The system gives no thread or no random bytes.
    #[error("the system gives no thread: {0}")]
    Thread(#[from] io::Error),
}

/// A node that ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

/// A node that runs.
pub struct Live<M: Talker> {
    handle: Handle<M>,
    stepper: JoinHandle<Result<(), String>>,
    carrier: JoinHandle<()>,
    outward: Arc<Outward>,
}

/// What others hold of a node: to ask, to look, to disturb. Clones are of the same node.
pub struct Handle<M: Talker> {
    inbox: Arc<Inbox<M>>,
    figures: Arc<Figures>,
    links: Links,
    wall: Wall,
    address: SocketAddr,
    node: Node,
    life: u64,
}

impl<M: Talker> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Handle {
            inbox: Arc::clone(&self.inbox),
            figures: Arc::clone(&self.figures),
            links: self.links.clone(),
            wall: self.wall.clone(),
            address: self.address,
            node: self.node,
            life: self.life,
        }
    }
}

impl<M: Talker + 'static> Handle<M> {
    /// Asks. `answer` is called once, on the machine's thread and so quickly, if the machine
    /// answers; it is dropped uncalled when the node ends first.
    pub fn call(
        &self,
        request: <M::Protocol as Protocol>::Request,
        answer: impl FnOnce(<M::Protocol as Protocol>::Response) + Send + 'static,
    ) {
        let came = cavy_clock::now();
        self.inbox.push(Event::Call { request, answer: Box::new(answer), came });
    }

    /// Looks at the machine between two steps. `None` when the node has ended.
    pub fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&M) -> R + Send + 'static,
    ) -> Option<R> {
        let (tell, told) = channel();
        self.inbox.push(Event::Look(Box::new(move |machine| drop(tell.send(look(machine))))));
        told.recv().ok()
    }

    /// What the node has counted.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Its network, to be changed while it runs.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Its wall clock, to be stepped while it runs.
    pub fn wall(&self) -> &Wall {
        &self.wall
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who it is.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Which life of the node this is, counted in its log; 1 without one.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Ends the node: what was stored is synced, calls that are not answered never are.
    pub fn stop(&self) {
        self.inbox.push(Event::Stop);
    }
}

impl<M: Talker + 'static> Live<M> {
    /// What others hold of it.
    pub fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// When it ended without being told to: its disk failed, or its machine broke a rule.
    pub fn join(self) -> Result<(), Fault> {
        let ended = self.stepper.join();
        self.outward.stop();
        let _ = self.carrier.join();
        self.handle.inbox.close();
        match ended {
            Ok(ended) => ended.map_err(Fault),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| t.to_string()));
                let text = text.unwrap_or_else(|| "no words".to_string());
                Err(Fault(format!("the machine panicked: {text}")))
            }
        }
    }
}

/// Starts a node. `make` builds its machine, on the thread that will step it; `observe` hears what
/// the machine tells observers, on that thread.
///
/// # Errors
/// When its sockets, its log or its recording cannot be had. A log that is damaged is named by the
/// record.
pub fn start<M, C, J>(
    options: Options,
    make: impl FnOnce() -> M + Send + 'static,
    codec: C,
    jobs: J,
    observe: impl FnMut(cavy_core::Instant, &<M::Protocol as Protocol>::Note) + Send + 'static,
) -> Result<Live<M>, StartError>
where
    M: Talker<Protocol: Portable> + 'static,
    M::Timer: Hash,
    C: Codec<M::Protocol>,
    J: Jobs<M::Protocol>,
{
    let codec = Arc::new(codec);
    let inbox: Arc<Inbox<M>> = Arc::new(Inbox::new());
    let figures = Arc::new(Figures::default());
    let wall = Wall::new(options.skew);
    let node = options.node;
    let (writer, replayed, life) = open_log(&options, &*codec, &inbox, &figures)?;
    let seed = options.seed ^ (life - 1) << 40;
    let recorder = options.record.as_ref().map(|path| {
        let header = record::Header { node, seed, about: options.about.clone() };
        record::Recorder::create(path, &header)
            .map_err(|error| StartError::Recording { path: path.clone(), error })
    });
    let recorder = recorder.transpose()?;
    let mut incarnation = [0; 8];
    rustix::rand::getrandom(&mut incarnation, rustix::rand::GetRandomFlags::empty())
        .map_err(io::Error::from)?;
    let mut secret = options.cluster.clone().into_bytes();
    secret.push(0);
    secret.extend_from_slice(&options.format.to_le_bytes());
    secret.extend_from_slice(&options.key);
    let carried = CarrierOptions {
        me: node,
        listen: options.listen,
        peers: options.peers.clone(),
        key: frame::Key::new(&secret),
        incarnation: u64::from_le_bytes(incarnation) | 1,
        lived: life > 1 || options.lost_log,
        seed: options.seed,
        kept_bytes_max: options.kept_bytes_max,
        message_bytes_max: options.message_bytes_max,
    };
    let (links, address) = (options.links.clone(), options.listen);
    let Started { carrier, outward, address, thread } = Carrier::start(
        carried,
        Arc::clone(&inbox),
        Arc::clone(&codec),
        links.clone(),
        Arc::clone(&figures),
    )
    .map_err(|error| StartError::Listen { node, address, error })?;
    let bench = if options.workers > 0 {
        let told = Arc::clone(&inbox);
        let told = Arc::new(move |done| told.push(Event::Worked(done)));
        Some(work::Bench::start::<M::Protocol, J>(Arc::new(jobs), options.workers, told)?)
    } else {
        None
    };
    let handle = Handle {
        inbox: Arc::clone(&inbox),
        figures: Arc::clone(&figures),
        links,
        wall: wall.clone(),
        address,
        node,
        life,
    };
    let world = World {
        me: node,
        codec,
        rng: Stream::keyed(seed, node.0, Purpose::Machine),
        wall,
        inbox,
        outward: Arc::clone(&outward),
        carrier,
        writer,
        recorder,
        bench,
        figures,
        observe: Box::new(observe),
    };
    let stepper = std::thread::Builder::new()
        .name(format!("cavy-node-{}", node.0))
        .spawn(move || Stepper::new(make(), world).run(replayed))?;
    Ok(Live { handle, stepper, carrier: thread, outward })
}

type Records<M> =
    Vec<(cavy_core::family::message::Entry, <<M as Talker>::Protocol as Protocol>::Record)>;
type OpenedLog<M> = (Option<log::Writer>, Option<(Records<M>, bool)>, u64);

fn open_log<M, C>(
    options: &Options,
    codec: &C,
    inbox: &Arc<Inbox<M>>,
    figures: &Arc<Figures>,
) -> Result<OpenedLog<M>, StartError>
where
    M: Talker<Protocol: Portable> + 'static,
    C: Codec<M::Protocol>,
{
    let lost = options.lost_log.then(|| (Vec::new(), true));
    let Some(settings) = &options.log else { return Ok((None, lost, 1)) };
    let folder = settings.folder.clone();
    let fault = |error| StartError::Log { folder: folder.clone(), error };
    let mut disk = log::Folder::open(&folder).map_err(|error| fault(error.into()))?;
    let opened = log::open(&mut disk, options.node, options.format).map_err(fault)?;
    let mut records = Vec::with_capacity(opened.records.len());
    for (entry, bytes) in &opened.records {
        let Some(record) = codec.read_record(bytes) else {
            return Err(StartError::Record { folder, record: entry.0 });
        };
        records.push((*entry, record));
    }
    let told = Arc::clone(inbox);
    let writer_options = log::WriterOptions {
        node: options.node,
        format: options.format,
        durable: settings.durable,
        segment_bytes: settings.segment_bytes,
        gather: options.gather,
    };
    let tell = move |stored: Result<u64, String>| match stored {
        Ok(upto) => told.push(Event::Stored { upto }),
        Err(why) => told.push(Event::Fault(format!("the log failed: {why}"))),
    };
    let figures = Arc::clone(figures);
    let writer = log::Writer::start(disk, &opened, writer_options, figures, Box::new(tell))?;
    let replayed = if opened.life > 1 { Some((records, opened.torn)) } else { lost };
    Ok((Some(writer), replayed, opened.life))
}
