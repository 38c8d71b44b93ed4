//! `cavy-live study homa`: messages of known lengths between six hosts, over Homa and over what a
//! user would take instead, on a network of this machine's own `[homa 7.5, 7.6, 7.7]`.
//!
//! **Promise.** All peers get the same messages at the same times, drawn before the run; latency
//! counts from the time a message was due. All hosts, transports and the generator are threads of
//! one process, one for each host, that share this machine's cores; links are so slow that a packet
//! takes longer than its software. What the machine was like stands beside every result.
//!
//! **Reading order.** `plan` (what is asked for), `arrivals` (what is sent), `peers` (by whom),
//! `trial` and `books` (one run), `kept` (a run in a file), `lag` (how late threads were),
//! `slowdown` (what came of it), `incast`, `bridge` (what the lab says), `show`.

mod arrivals;
mod books;
mod bridge;
mod incast;
mod kept;
mod lag;
mod peers;
pub mod plan;
mod show;
mod slowdown;
mod trial;

use super::Settings;
use crate::args::{HomaPeer, StudyName};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use arrivals::{Arrivals, Demand};
use bridge::Software;
use cavy_core::Span;
use cavy_kinds::network::messages::published;
use cavy_lab::net::Ideal;
use cavy_lab::statistics::quantile::{BEYOND_MIN, BEYOND_MIN_IN_BIN};
use cavy_report::model::Figure;
use cavy_testbed::{self as testbed, Plan, Testbed};
use cavy_trials::kept::Shelf;
use cavy_trials::progress::Progress;
use cavy_trials::turns::in_turns;
use cavy_trials::{Heard, Part};
use incast::Questions;
use kept::{KeptRound, Label};
use plan::{Asked, BetweenHosts};
use show::PeerResult;
use slowdown::Tally;
use trial::{Manner, Round};

/// What a run takes beyond its length: the idle network, probes, the last answers.
const BESIDE_S: f64 = 3.0;

/// What is run.
struct Programme {
    demands: Vec<Demand>,
    peers: Vec<HomaPeer>,
    /// The warm-up, and the length with it.
    times: (Span, Span),
    incast: Option<Questions>,
    incast_peers: Vec<HomaPeer>,
    resume: bool,
}

impl Programme {
    fn new(settings: &Settings, asked: &Asked, testbed: &Plan) -> Result<Programme, Fault> {
        let args = &settings.args.homa;
        let asked_for =
            |peer: HomaPeer| args.transports.is_empty() || args.transports.contains(&peer);
        let able = |peer: HomaPeer| match peer.obstacle() {
            Some(reason) if asked_for(peer) => {
                terminal::talk(&format!("SKIPPED: {}: {reason}", peer.label()));
                false
            }
            _ => asked_for(peer),
        };
        let peers: Vec<HomaPeer> = HomaPeer::ALL.into_iter().filter(|&peer| able(peer)).collect();
        let quick = settings.args.quick;
        let incast_peers: Vec<HomaPeer> = incast::PEERS
            .into_iter()
            .filter(|&peer| able(peer) && (!quick || peer != HomaPeer::TcpBbr))
            .collect();
        let (mut demands, mut times) = (Vec::new(), (Span::ZERO, Span::ZERO));
        if let Some(on) = &asked.messages {
            (demands, times) = (on.demands(testbed)?, on.times()?);
        }
        let incast = asked.incast.as_ref().map(|on| {
            let ((warmup, length), (converging, numbers)) = (on.times()?, on.converging()?);
            let (bytes, answer_bytes) = (converging.question_bytes, converging.answer_bytes);
            let counted = length - warmup;
            Ok::<_, Fault>(Questions { bytes, answer_bytes, numbers, warmup, counted })
        });
        let (incast, resume) = (incast.transpose()?, args.resume);
        Ok(Programme { demands, peers, times, incast, incast_peers, resume })
    }

    /// Runs of all peers on all demands.
    fn runs(&self, repetitions: u16) -> usize {
        self.demands.len() * self.peers.len() * usize::from(repetitions)
    }

    /// What all runs take, in minutes.
    fn minutes(&self, repetitions: u16) -> f64 {
        let slowdown = self.runs(repetitions) as f64 * (self.times.1.as_us() / 1e6 + BESIDE_S);
        let incast = self.incast.as_ref().map_or(0.0, |asked| {
            let runs = (asked.numbers.len() * self.incast_peers.len()) as f64;
            runs * ((asked.warmup + asked.counted).as_us() / 1e6 + 0.5)
        });
        (slowdown + incast) / 60.0
    }
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    if let Some(reason) = testbed::obstacle() {
        terminal::talk(&format!("SKIPPED: study homa: {reason}"));
        let facts = vec![("homa".to_string(), format!("skipped: {reason}"))];
        return Ok(Part { facts, ..Part::default() });
    }
    let asked = Asked::of(settings)?;
    let Some(plan) = asked.messages.as_ref().or(asked.incast.as_ref()).map(BetweenHosts::testbed)
    else {
        return Ok(Part::default());
    };
    let programme = Programme::new(settings, &asked, &plan)?;
    terminal::talk(&format!(
        "homa: about {:.0} minutes",
        programme.minutes(settings.repetitions).ceil()
    ));
    let mut testbed = Testbed::up(plan)?;
    let mut part = Part::default();
    let ideal = Ideal::new(&slowdown::network(&plan, Span::ZERO)?);
    let mut bridged = Vec::new();
    let mut clock = Progress::new(programme.runs(settings.repetitions));
    for demand in &programme.demands {
        let drawn: Result<Vec<Arrivals>, Fault> =
            settings.seeds().map(|seed| demand.draw(plan.hosts, programme.times, seed)).collect();
        let drawn = drawn?;
        let rounds = rounds(settings, &mut testbed, &programme, demand, &drawn, &mut clock)?;
        hear(&mut part, &rounds, &drawn);
        judge(settings, demand, &drawn, &rounds, &ideal, &plan, &mut part, &mut bridged)?;
        if let (Some(figure), Some(on)) = (part.figures.last_mut(), &asked.messages) {
            let id = format!("plan-in-the-lab-{}", demand.id());
            figure.title = on.title(demand);
            figure.tables.push(on.in_the_lab(&id, |plan| {
                let workload = plan.messages.as_ref().and_then(|messages| messages.workload);
                plan.load == demand.load && workload.map(published) == Some(demand.workload)
            })?);
        }
    }
    part.findings.extend(show::agreement(&bridged).into_iter().filter(|_| !bridged.is_empty()));
    if let (Some(on), Some(questions)) = (&asked.incast, &programme.incast)
        && !programme.incast_peers.is_empty()
    {
        run_incast(settings, &mut testbed, &programme.incast_peers, questions, &mut part)?;
        if let Some(figure) = part.figures.last_mut() {
            figure.tables.push(on.in_the_lab("plan-in-the-lab-incast", |_| true)?);
        }
    }
    // Claims are about the study's own plans.
    if [&asked.messages, &asked.incast].into_iter().flatten().any(|on| on.own) {
        part.findings.clear();
    }
    part.facts.extend(facts(&plan));
    Ok(part)
}

fn rounds(
    settings: &Settings,
    testbed: &mut Testbed,
    programme: &Programme,
    demand: &Demand,
    drawn: &[Arrivals],
    clock: &mut Progress,
) -> Result<Vec<Round>, Fault> {
    let manner = Manner { probe: settings.session.probe, stop: &settings.session.stop };
    let folder = &settings.session.folder;
    let shelf = Shelf::new(folder, programme.resume, env!("CARGO_PKG_VERSION"))?;
    in_turns(drawn, &programme.peers, |turn| {
        let (repetition, arrivals, peer) = (turn.repetition, turn.schedule, turn.peer);
        let plan = *testbed.plan();
        let label = Label { demand, peer, repetition, arrivals, plan: &plan };
        let file = label.file()?;
        let kept = shelf.take(&file, |kept: &KeptRound| !kept.round(&label).doubts().is_empty());
        if let Some(kept) = kept {
            clock.skip();
            return Ok(kept.round(&label));
        }
        terminal::talk(&format!(
            "{}, {} {}/{}: {}, {} messages in {:.0} s",
            clock.left(),
            demand.label(),
            turn.number,
            turn.all,
            peer.label(),
            arrivals.all.len(),
            arrivals.length.as_us() / 1e6
        ));
        let round = trial::run(&manner, testbed, peer, demand, (repetition, arrivals))?;
        clock.ran(round.doubts());
        shelf
            .put(&file, &KeptRound::of(&round))
            .map_err(|error| Fault::from(error).code(FAILED))?;
        Ok(round)
    })
}

/// Notes what the machine was like.
fn hear(part: &mut Part, rounds: &[Round], drawn: &[Arrivals]) {
    part.heard.extend(rounds.iter().map(|round| Heard {
        weather: round.weather,
        doubted: !round.doubts().is_empty(),
        schedule: drawn.get(round.repetition).map_or(0, Arrivals::digest),
    }));
}

#[allow(clippy::too_many_arguments, reason = "called once, to keep `run` short")]
fn judge(
    settings: &Settings,
    demand: &Demand,
    drawn: &[Arrivals],
    rounds: &[Round],
    ideal: &Ideal,
    plan: &Plan,
    part: &mut Part,
    bridged: &mut Vec<show::Bridged>,
) -> Result<(), Fault> {
    let mut results: Vec<PeerResult> = Vec::new();
    for round in rounds {
        if results.iter().all(|result| result.peer != round.peer) {
            let of = || rounds.iter().filter(|other| other.peer == round.peer);
            let all = Tally::of(of(), ideal);
            let single = of().map(|round| Tally::of(std::iter::once(round), ideal)).collect();
            let doubted = of().filter(|round| !round.doubts().is_empty()).count();
            results.push(PeerResult { peer: round.peer, all, single, doubted });
        }
    }
    let advantage = |name: &str, rivals: &dyn Fn(HomaPeer) -> bool| {
        let id = format!("live.homa.{}_{name}", demand.id().replace('-', "_"));
        show::advantage(&id, demand, &results, HomaPeer::Homa, rivals)
    };
    let raw_tcp = |peer: HomaPeer| peer.is_tcp() && peer != HomaPeer::Grpc;
    part.findings.extend(advantage("tcp", &raw_tcp));
    part.findings.extend(advantage("quic", &|peer| peer == HomaPeer::Quic));
    part.findings.extend(advantage("grpc", &|peer| peer == HomaPeer::Grpc));
    part.findings.extend(advantage("control", &|peer| peer == HomaPeer::NoLevels));

    let all: Vec<&Round> = rounds.iter().collect();
    let mut tables = vec![
        show::short_half(demand, &results),
        show::deciles(demand, &results),
        show::environment(demand, &all),
    ];
    let mut shows = format!(
        "{} hosts on links of {} Mb/s. Messages of {}, cut at 1 MB, {:.1} a second and host, each \
         answered by 8 bytes when it is there; slowdown is over the least time of both on that \
         network.",
        plan.hosts,
        plan.link_bits_per_s / 1_000_000,
        demand.workload.name(),
        demand.rate_per_s
    );
    for measured in results.iter().filter(|result| result.peer.is_in_lab()) {
        let of = || rounds.iter().filter(|round| round.peer == measured.peer);
        let software: Option<Vec<Software>> = of().map(Software::of).collect();
        // Kept from before that was measured.
        let Some(software) = software else { continue };
        let mut predicted = bridge::Predicted::default();
        for (round, software) in of().zip(&software) {
            let Some(arrivals) = drawn.get(round.repetition) else { continue };
            let one = bridge::predict(measured.peer, demand, arrivals, plan, software, ideal)?;
            predicted.tally.times.extend(one.tally.times);
            predicted.sent_again += one.sent_again;
        }
        let sent_again = of().map(|round| round.health.sent_again).sum();
        let bins = bridge::compare(demand, &measured.all, &predicted.tally);
        let both = (sent_again, predicted.sent_again);
        tables.push(bridge::table(measured.peer, demand, &bins, both));
        if measured.peer == HomaPeer::Homa {
            let (runs, doubted) = (measured.single.len(), measured.doubted);
            bridged.push(show::Bridged { label: demand.label(), bins, runs, doubted });
            let send = software.iter().map(|one| one.send).min().unwrap_or(Span::ZERO);
            shows.push_str(&format!(
                " The lab takes {:.0} us to send a packet and what was measured beyond that, and \
                 as long as was measured until a thread looks at what came.",
                send.as_us()
            ));
        }
    }
    part.figures.push(Figure {
        id: format!("live.homa.{}", demand.id()),
        title: format!("Homa live, {}", demand.label()),
        shows,
        claimed:
            "Short messages have a 99th percentile that is at least five times lower than over \
             the best TCP and QUIC, at 80 % of W4 and W5 (issue 5)."
                .to_string(),
        found: found(demand, &results),
        command: settings.command(StudyName::Homa),
        panels: vec![show::panel(demand, &results)],
        maps: Vec::new(),
        tables,
    });
    Ok(())
}

fn found(demand: &Demand, results: &[PeerResult]) -> String {
    let one = |result: &PeerResult| {
        let p99 = result.all.short(demand, 0.99).0;
        let p99 = p99.map_or("n/a".to_string(), |value| format!("{value:.1}"));
        format!("{} {p99}", result.peer.label())
    };
    let all: Vec<String> = results.iter().map(one).collect();
    let beyond = show::beyond_short(demand, results);
    format!("P99 slowdown of the shorter half, {beyond} messages beyond: {}.", all.join(", "))
}

fn run_incast(
    settings: &Settings,
    testbed: &mut Testbed,
    chosen: &[HomaPeer],
    questions: &Questions,
    part: &mut Part,
) -> Result<(), Fault> {
    let points = incast::run(testbed, questions, chosen, &settings.session.stop)?;
    part.findings.extend(show::incast(&points, HomaPeer::Homa));
    let Questions { bytes, answer_bytes, .. } = *questions;
    part.figures.push(Figure {
        id: "live.homa.incast".to_string(),
        title: "Incast: all answer one".to_string(),
        shows: format!(
            "One host keeps so many questions of {bytes} B under way to {} others, which answer \
             {answer_bytes} B each. With headers, {:.1} % of the link's rate is what can be \
             reached. The switch keeps {} kB a level and port.",
            testbed.plan().hosts - 1,
            100.0 * most_goodput(answer_bytes),
            testbed.plan().level_bytes / 1_000
        ),
        claimed: "At least 90 % of the line rate at every number (issue 5).".to_string(),
        found: show::incast(&points, HomaPeer::Homa).map_or(String::new(), |finding| {
            let value = 100.0 * finding.value.unwrap_or(0.0);
            format!("Homa at its worst: {value:.1} % of the line rate. {}", finding.note)
        }),
        command: settings.command(StudyName::Homa),
        panels: Vec::new(),
        maps: Vec::new(),
        tables: vec![incast::table(&points, answer_bytes)],
    });
    Ok(())
}

/// Bytes of answers of incast over what they take on the wire.
fn most_goodput(answer_bytes: u32) -> f64 {
    let beside = arrivals::FRAME_MAX_BYTES - arrivals::PACKET_BYTES;
    let packets = answer_bytes.div_ceil(arrivals::PACKET_BYTES);
    f64::from(answer_bytes) / f64::from(answer_bytes + packets * beside)
}

fn facts(plan: &Plan) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_string(), value);
    vec![
        fact(
            "testbed",
            format!(
                "{} namespaces around a bridge, links of {} Mb/s with Ethernet's own costs, eight \
                 strict levels of {} kB at each port, {} kB at each host; no trains of segments",
                plan.hosts,
                plan.link_bits_per_s / 1_000_000,
                plan.level_bytes / 1_000,
                Plan::HOST_QUEUE_BYTES / 1_000
            ),
        ),
        fact("warm-up of messages", "those of the first tenth of each run are not counted".into()),
        fact(
            "percentiles of messages",
            format!(
                "over all repetitions together, given where {BEYOND_MIN_IN_BIN} messages lie \
                 beyond; where fewer than {BEYOND_MIN} do, tables say so and \
                 no advantage is claimed"
            ),
        ),
        fact(
            "doubts about a run",
            format!(
                "late: more than {} % of the messages were sent later than a packet's time and \
                 later than {} % of the short half's P99; stolen: the hypervisor took more than \
                 {} % of the time; busy: more than {} % of the time was used (by this process and \
                 the kernel's work for packets, if this process went before all others)",
                100.0 * trial::LATE_RATIO_MAX,
                100.0 * trial::LATE_PART_MAX,
                100.0 * trial::STEAL_RATIO_MAX,
                100.0 * trial::BUSY_RATIO_MAX
            ),
        ),
        fact(
            "looked, sent",
            "how long the oldest packet or message that a thread of Homa found had waited for it, \
             and how long it took from there to send the packet of a message or answer that has \
             one"
            .into(),
        ),
        fact(
            "threads",
            "one for each host and peer, and the generator, which goes before the others, and \
             sleeps until at most 250 us before each message"
                .into(),
        ),
        fact(
            "Homa over UDP",
            format!(
                "{} B unscheduled, the configuration `cavy` with windows of the Linux rules and at \
                 most ten times that on its way, no boost for the ends of messages (with it for \
                 incast), complaints after a thousand times what these take, {:.1} s (Basic, \
                 without grants and without incast control a quarter of it), no polling",
                arrivals::RTT_BYTES,
                8e3 * f64::from(arrivals::RTT_BYTES) / plan.link_bits_per_s as f64
            ),
        ),
        fact(
            "negative control",
            "the switch puts all packets into one level, as if all TOS were 0".into(),
        ),
        fact(
            "TCP",
            "the kernel's defaults, TCP_NODELAY; a pool has 4 to 128 connections a pair".into(),
        ),
        fact(
            "QUIC",
            "quinn, encrypted, cubic, no segmentation offload; gRPC: tonic, cubic, windows of 2 \
             and 64 MiB"
                .into(),
        ),
    ]
}
