//! Hosts at a switch whose port to the client keeps few packets, and one measurement
//! ([incast 7.2], [incast 7.3]).

use super::way::{Cell, Receiver, Sender, Turns};
use crate::faults::{FAILED, Fault, INTERRUPTED};
use cavy_clock as clock;
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::machine::Machine;
use cavy_stack::{Options, Stack, Stream};
use cavy_testbed::{Plan, Shaped, Testbed, tools};
use cavy_trials::health::{Health, Moment};
use cavy_trials::weather::Weather;
use futures_util::future::try_join_all;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime;
use tokio::time::timeout;

/// Hosts that answer; more servers than that share them, since their links are not what is narrow.
const HOSTS: u16 = 16;
const PORT: u16 = 7000;
/// How long a part of a block may take before the cell is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Blocks of a measurement at least, and one before them that does not count.
const BLOCKS_MIN: usize = 4;
/// Buffers of the kernel's sockets: those the specification measured with [incast 7.2].
const BUFFERS: &str = "4096\t1048576\t4194304";

/// What one measurement gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Each block, in milliseconds.
    pub blocks_ms: Vec<f64>,
    pub mbps: f64,
    /// Packets that found no room at the port to the client.
    pub dropped: u64,
    /// Timers of the senders that ran out.
    pub timeouts: u64,
    pub health: Health,
    pub weather: Weather,
}

impl Run {
    /// A block by the share of those that were shorter.
    pub fn block_ms(&self, ratio: f64) -> f64 {
        let mut all = self.blocks_ms.clone();
        all.sort_by(f64::total_cmp);
        quantile::of_sorted(&all, ratio).unwrap_or(0.0)
    }

    /// Why it should not be believed. What is taken by others than this process and the kernel
    /// for its packets is in the way of all; steps that are a processor's own limit are not.
    pub fn doubts(&self) -> Vec<&'static str> {
        const STEAL_RATIO_MAX: f64 = 0.01;
        const OTHERS_RATIO_MAX: f64 = 0.15;
        const STALLED_RATIO_MAX: f64 = 0.1;
        let health = &self.health;
        let others = health.busy_ratio - health.own_ratio - health.kernel_ratio;
        let stalled = self.weather.stalled_ratio.is_some_and(|ratio| ratio > STALLED_RATIO_MAX);
        [
            (health.steal_ratio > STEAL_RATIO_MAX, "stolen"),
            (others > OTHERS_RATIO_MAX, "others"),
            (stalled, "stalled"),
        ]
        .into_iter()
        .filter_map(|(is, what)| is.then_some(what))
        .collect()
    }
}

/// The hosts.
pub struct Bed {
    testbed: Testbed,
    port_bytes: u32,
}

fn failed(what: &str, error: &io::Error) -> Fault {
    Fault::new(format!("{what}: {error}")).code(FAILED)
}

/// The prefix behind a host.
fn prefix(host: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 90, host as u8, 0)
}

/// Sets a value of the namespace and reads it back: some are refused without a word [incast 7.1].
fn set(name: &str, value: &str) -> Result<(), Fault> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    fs::write(&path, value).map_err(|error| failed(&path, &error))?;
    let said = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
    if said.trim() != value {
        return Err(Fault::new(format!("{path} is {}, not {value}", said.trim())).code(FAILED));
    }
    Ok(())
}

/// Answers questions of four octets, each with as many octets as it says.
fn answer(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let chunk = vec![b'a'; 1 << 16];
    let mut asked = [0; 4];
    loop {
        from.read_exact(&mut asked)?;
        let mut left = u32::from_be_bytes(asked) as usize;
        while left > 0 {
            let length = left.min(chunk.len());
            to.write_all(&chunk[..length])?;
            left -= length;
        }
    }
}

/// The client's connections, one to each server.
enum Lines {
    Kernel(Vec<TcpStream>),
    Ours(Vec<Stream>),
}

/// Those who answer in one cell; they end with this.
struct Servers {
    at: Vec<SocketAddrV4>,
    stacks: Vec<Stack>,
    stop: Arc<AtomicBool>,
    kernels: Vec<thread::JoinHandle<()>>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.kernels.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Bed {
    /// Builds it.
    pub fn up(mbit: u32, port_bytes: u32) -> Result<Bed, Fault> {
        let plan = Plan {
            hosts: HOSTS + 1,
            link_bits_per_s: u64::from(mbit) * 1_000_000,
            // As the specification measured [incast 7.2]. With all links shaped, two processors
            // are busy at 1 Gb/s before the port has anything to drop.
            shaped: Shaped::PortTo(0),
            level_bytes: port_bytes.into(),
            levels: false,
        };
        let testbed = Testbed::up(plan)?;
        for (number, host) in (0..).zip(testbed.hosts()) {
            host.within(|| {
                set("ip_forward", "1")?;
                set("tcp_no_metrics_save", "1")?;
                set("tcp_sack", "1")?;
                set("tcp_rmem", BUFFERS)?;
                set("tcp_wmem", BUFFERS)
            })??;
            if number > 0 {
                let line = format!("route add {}/24 via {}", prefix(0), Plan::address(0));
                tools::batch("ip", Some(host.name()), &[line])?;
            }
        }
        Ok(Bed { testbed, port_bytes })
    }

    /// Tells all kernels what the cell says of them.
    fn tell(&self, cell: &Cell) -> Result<(), Fault> {
        if let Sender::Kernel { rack, rto_min_us, .. } = cell.way.sender {
            for host in self.testbed.hosts() {
                host.within(|| {
                    set("tcp_early_retrans", if rack { "3" } else { "0" })?;
                    set("tcp_recovery", if rack { "1" } else { "0" })
                })??;
            }
            for host in &self.testbed.hosts()[1..] {
                host.within(|| set("tcp_rto_min_us", &rto_min_us.to_string()))??;
            }
        }
        let quick = u8::from(cell.way.receiver == Receiver::Kernel { quick: true });
        let (client, own) = (&self.testbed.hosts()[0], Plan::address(0));
        let [a, b, c, _] = own.octets();
        let near = Ipv4Addr::new(a, b, c, 0);
        let mut lines = vec![format!(
            "route replace {near}/24 dev eth0 proto kernel scope link src {own} quickack {quick}"
        )];
        lines.extend((1..=HOSTS).map(|host| {
            let (to, via) = (prefix(host), Plan::address(host));
            format!("route replace {to}/24 via {via} quickack {quick}")
        }));
        Ok(tools::batch("ip", Some(client.name()), &lines)?)
    }

    fn stack(&self, host: u16, change: impl FnOnce(&mut Options) + Send) -> Result<Stack, Fault> {
        let net = format!("{}/24", prefix(host)).parse();
        let net = net.map_err(|_| Fault::new("a prefix").code(FAILED))?;
        let open = || {
            let mut options = Options::new(net);
            change(&mut options);
            Stack::open(options)
        };
        let stack = self.testbed.hosts()[usize::from(host)].within(open)?;
        stack.map_err(|error| Fault::new(error.to_string()).code(FAILED).hint(error.hint()))
    }

    fn serve(&self, cell: &Cell) -> Result<Servers, Fault> {
        let stop = Arc::new(AtomicBool::new(false));
        let (at, stacks, kernels) = (Vec::new(), Vec::new(), Vec::new());
        let mut servers = Servers { at, stacks, stop, kernels };
        for host in 1..=cell.servers.min(HOSTS) {
            match cell.way.sender {
                Sender::Kernel { control, .. } => {
                    let to = SocketAddrV4::new(Plan::address(host), PORT);
                    let space = &self.testbed.hosts()[usize::from(host)];
                    let stop = Arc::clone(&servers.stop);
                    let listen = space.within(|| kernel_server(to, control, stop))?;
                    let what = format!("cannot listen at {to} with {control}");
                    servers.kernels.push(listen.map_err(|error| failed(&what, &error))?);
                    servers.at.push(to);
                }
                Sender::Ours { floor } => {
                    let stack = self.stack(host, |options| options.tcp.rto.min = floor)?;
                    let to = SocketAddrV4::new(stack.first_address(), PORT);
                    let listener = stack.bind(to, 16).map_err(|error| failed("a port", &error))?;
                    thread::spawn(move || {
                        while let Ok((stream, _)) = listener.accept() {
                            thread::spawn(move || answer(&stream, &stream));
                        }
                    });
                    servers.stacks.push(stack);
                    servers.at.push(to);
                }
            }
        }
        Ok(servers)
    }

    /// Timers of the kernels of all servers that ran out.
    fn kernel_timeouts(&self) -> Result<u64, Fault> {
        let hosts = self.testbed.hosts().iter().skip(1);
        hosts.map(|host| Ok(host.within(timeouts_here)?)).sum()
    }

    fn dropped(&self) -> Result<u64, Fault> {
        Ok(self.testbed.port(0)?.dropped())
    }

    /// The client fetches blocks for so long.
    pub fn measure(
        &self,
        cell: &Cell,
        length: Span,
        probe: Span,
        stop: &AtomicBool,
    ) -> Result<Run, Fault> {
        self.tell(cell)?;
        let servers = self.serve(cell)?;
        let client = match cell.way.receiver {
            Receiver::Kernel { .. } => None,
            Receiver::Ours { turns } => Some(self.stack(0, |options| match turns {
                Some(Turns::Told(times)) => options.schedule(times * self.port_bytes),
                Some(Turns::Learned) => options.schedule_learned(),
                None => {}
            })?),
        };
        let lines = self.testbed.hosts()[0].within(|| connect(cell, &servers.at, client.as_ref()));
        let lines = lines?.map_err(|error| failed("no connection", &error))?;
        let part = cell.block_bytes / usize::from(cell.servers);
        let mut machine = Machine::before(probe);
        let sent_again =
            || servers.stacks.iter().map(|stack| stack.metrics().retransmitted).sum::<u64>();
        let before = (self.dropped()?, self.kernel_timeouts()?);
        let moment = Moment::look(&self.testbed, sent_again())?;
        let blocks_ms = fetch_blocks(lines, part, length, stop)?;
        let health = Moment::look(&self.testbed, sent_again())?.since(&moment);
        let after = (self.dropped()?, self.kernel_timeouts()?);
        machine.after(probe);
        let ours: u64 = servers.stacks.iter().map(|stack| stack.metrics().timeouts).sum();
        let octets = (blocks_ms.len() * part * usize::from(cell.servers)) as f64;
        Ok(Run {
            mbps: octets * 8.0 / blocks_ms.iter().sum::<f64>() / 1e3,
            blocks_ms,
            dropped: after.0 - before.0,
            timeouts: after.1 - before.1 + ours,
            health,
            weather: Weather::of(&machine),
        })
    }
}

fn timeouts_here() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
    let mut lines = text.lines();
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let both = names.split(' ').zip(values.split(' '));
    let found = both.into_iter().find(|&(name, _)| name == "TCPTimeouts");
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

fn connect(cell: &Cell, at: &[SocketAddrV4], client: Option<&Stack>) -> io::Result<Lines> {
    let servers = at.iter().cycle().take(usize::from(cell.servers));
    let Some(stack) = client else {
        let one = |&to: &SocketAddrV4| {
            let stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        return servers.map(one).collect::<io::Result<_>>().map(Lines::Kernel);
    };
    let one = |&to: &SocketAddrV4| {
        let stream = stack.connect_from(stack.first_address(), to, Some(PATIENCE))?;
        stream.set_timeout(Some(PATIENCE));
        Ok(stream)
    };
    servers.map(one).collect::<io::Result<_>>().map(Lines::Ours)
}

fn kernel_server(
    at: SocketAddrV4,
    control: &str,
    stop: Arc<AtomicBool>,
) -> io::Result<thread::JoinHandle<()>> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_congestion(control.as_bytes())?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(128)?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let listener = TcpListener::from(socket);
    Ok(thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            if let Ok((stream, _)) = listener.accept() {
                let _ = stream.set_nodelay(true);
                // What accepting waits for is inherited.
                let _ = stream.set_read_timeout(None);
                thread::spawn(move || answer(&stream, &stream));
            }
        }
    }))
}

/// How long each block took, in milliseconds, but the first: all servers are asked at once, and the
/// next block begins when the last part is here [incast 4.1].
fn fetch_blocks(
    lines: Lines,
    part: usize,
    length: Span,
    stop: &AtomicBool,
) -> Result<Vec<f64>, Fault> {
    let enough = |blocks: usize, first| {
        let whole = blocks > BLOCKS_MIN && clock::now().since(first) >= length;
        whole || stop.load(Ordering::Relaxed)
    };
    let blocks = match lines {
        Lines::Kernel(streams) => fetch_polled(&streams, part, enough),
        Lines::Ours(mut streams) => fetch_asked(&mut streams, part, enough),
    };
    let mut blocks = blocks.map_err(|error| failed("a server did not answer", &error))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Fault::new("interrupted: nothing is judged").code(INTERRUPTED));
    }
    Ok(blocks.split_off(1))
}

/// One thread asks all and takes what comes, as the specification's client does [incast 7.2]. With
/// a thread for each connection, questions leave as the scheduler pleases, hundreds of
/// microseconds apart, and answers at 1 Gb/s hardly meet.
fn fetch_polled(
    streams: &[TcpStream],
    part: usize,
    enough: impl Fn(usize, cavy_core::Instant) -> bool,
) -> io::Result<Vec<f64>> {
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let (asked, mut buffer) = ((part as u32).to_be_bytes(), vec![0; 1 << 16]);
    let (mut blocks, first) = (Vec::new(), clock::now());
    while !enough(blocks.len(), first) {
        let began = clock::now();
        let mut left = vec![part; streams.len()];
        for mut stream in streams {
            // Four octets find room, since nothing else is on its way.
            stream.write_all(&asked)?;
        }
        while left.iter().any(|&octets| octets > 0) {
            let open: Vec<usize> = (0..left.len()).filter(|&at| left[at] > 0).collect();
            let mut waits: Vec<_> =
                open.iter().map(|&at| PollFd::new(&streams[at], PollFlags::IN)).collect();
            if poll(&mut waits, Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let ready = waits.iter().map(|wait| !wait.revents().is_empty()).collect::<Vec<_>>();
            for (at, _) in open.into_iter().zip(ready).filter(|&(_, ready)| ready) {
                let most = buffer.len().min(left[at]);
                match (&streams[at]).read(&mut buffer[..most]) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(octets) => left[at] -= octets,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        blocks.push(clock::now().since(began).as_us() / 1e3);
    }
    Ok(blocks)
}

/// The same of our own stack's connections.
fn fetch_asked(
    streams: &mut [Stream],
    part: usize,
    enough: impl Fn(usize, cavy_core::Instant) -> bool,
) -> io::Result<Vec<f64>> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let (mut blocks, first) = (Vec::new(), clock::now());
        while !enough(blocks.len(), first) {
            let began = clock::now();
            let all = try_join_all(streams.iter_mut().map(|stream| fetch(stream, part)));
            timeout(PATIENCE, all).await.map_err(|_| io::ErrorKind::TimedOut)??;
            blocks.push(clock::now().since(began).as_us() / 1e3);
        }
        Ok::<_, io::Error>(blocks)
    })
}

/// One part from one server.
async fn fetch(stream: &mut Stream, part: usize) -> io::Result<()> {
    // It is a stream of the standard library's as well.
    AsyncWriteExt::write_all(stream, &(part as u32).to_be_bytes()).await?;
    let (mut left, mut buffer) = (part, [0; 1 << 13]);
    while left > 0 {
        let most = buffer.len().min(left);
        match AsyncReadExt::read(stream, &mut buffer[..most]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            octets => left -= octets,
        }
    }
    stream.answered();
    Ok(())
}
