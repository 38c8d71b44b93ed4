//! Keeping this machine's coordinate.

use super::secret;
use super::typed::AgentArgs;
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use cavy_agents::echo::Echo;
use cavy_agents::report::{self, Reporter};
use cavy_agents::world::Measured;
use cavy_agents::{Agent, Key, OpenError, Options, Reach};
use cavy_coords::start::Known;
use cavy_coords::{Point, map};
use cavy_places::{Found, Places};
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How often it looks whether it should end.
const LOOK: Duration = Duration::from_millis(200);
/// Looks between two reports to the service.
const LOOKS_PER_REPORT: u32 = 25;

/// Runs the command.
pub fn agent(args: &AgentArgs) -> Result<ExitCode, Fault> {
    let found = found(args)?;
    let options = options(args, &found)?;
    let stop = signals::stop(Second::Waits)?;
    let echo = args.echo.map(Echo::start).transpose().map_err(|error| {
        let at = args.echo.map(|at| at.to_string()).unwrap_or_default();
        Fault::new(format!("cannot listen on --echo {at}: {error}")).code(FAILED)
    })?;
    let agent = Agent::start(&options).map_err(|error| {
        let wrong_input = matches!(error, OpenError::Option(_));
        let fault = Fault::new(error.to_string());
        if wrong_input { fault } else { fault.code(FAILED) }
    })?;
    let at = agent.local_address();
    let mut reporter = match args.service {
        Some(service) => Some(reporter(args, &options, &found, service, at)?),
        None => None,
    };
    if args.json {
        terminal::print(&format!("{}\n", json!({ "listens": at.to_string() })))?;
    } else {
        terminal::talk(&format!("listens on {at}; Ctrl-C ends"));
    }
    let mut said = None;
    let mut looks = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        match agent.measurements().recv_timeout(LOOK) {
            Ok(measured) => {
                if let Some(reporter) = &mut reporter {
                    reporter.note(&measured);
                }
                show(args, &agent, &measured)?;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        looks = looks.wrapping_add(1);
        if let Some(reporter) = reporter.as_mut().filter(|_| looks.is_multiple_of(LOOKS_PER_REPORT))
        {
            let status = agent.status().map_err(|error| Fault::new(error.to_string()))?;
            // Each trouble is said once.
            let trouble = reporter.tell(&status).err().or(status.not_stored);
            if trouble.is_some() && trouble != said {
                terminal::talk(trouble.as_deref().unwrap_or_default());
            }
            said = trouble;
        }
    }
    let status = agent.status().map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
    if let Some(reporter) = &mut reporter {
        let _ = reporter.tell(&status);
    }
    terminal::talk(&format!(
        "{} probes, {} measured, {} updates, {} peers",
        status.counters.probes, status.counters.measured, status.updates, status.peers
    ));
    drop(echo);
    Ok(ExitCode::SUCCESS)
}

fn found(args: &AgentArgs) -> Result<Found, Fault> {
    let mut places = Places::new(args.mmdb.clone(), args.systems.clone());
    for line in places.refresh() {
        terminal::talk(&line);
    }
    Ok(args.address.map_or(Found::NOTHING, |ip| places.find(ip)))
}

fn options(args: &AgentArgs, found: &Found) -> Result<Options, Fault> {
    let mut options = Options::new(args.bind).seeds(args.peer.iter().copied());
    options.known = match args.at {
        Some((latitude, longitude)) => {
            Known { address: Point::from_degrees(latitude, longitude), country: None }
        }
        None => found.known,
    };
    options.model.line = map::SERVERS;
    (options.system, options.reach) = (found.system, Reach::of(found));
    (options.space, options.symmetric) = (args.space, !args.one_sided);
    options.every = Some(args.every);
    options.kept.clone_from(&args.state);
    if let Some(path) = &args.key_file {
        let key = Key::from_hex(&secret("--key-file", path)?);
        options.key = Some(key.ok_or_else(|| {
            let name = path.display();
            Fault::new(format!("--key-file {name} does not hold 64 hexadecimal digits"))
                .hint("make one with `openssl rand -hex 32 > FILE`, the same for all agents")
        })?);
    }
    Ok(options)
}

fn reporter(
    args: &AgentArgs,
    options: &Options,
    found: &Found,
    service: std::net::SocketAddr,
    at: std::net::SocketAddr,
) -> Result<Reporter, Fault> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None if at.ip().is_unspecified() => {
            return Err(Fault::new(
                "--service needs --id, or --bind with the address of this host",
            )
            .hint("peers' reports name this node by the address they reach it at"));
        }
        None => at.to_string(),
    };
    let token = args.token_file.as_deref().map(|path| secret("--token-file", path)).transpose()?;
    let place = options.known.address.map(|point| point.degrees());
    let (ip, class, reach) = (args.address, args.class.clone(), Reach::of(found));
    let told = report::Options { service, token, id, ip, place, class, reach };
    // The monotonic clock tells this life from earlier ones of the same boot, the day's from
    // others.
    let life = cavy_agents::http::now_s() << 20 ^ u64::from(std::process::id());
    Reporter::new(told, life).map_err(|error| Fault::new(error.to_string()).code(FAILED))
}

fn show(args: &AgentArgs, agent: &Agent, measured: &Measured) -> Result<(), Fault> {
    if !args.json {
        return Ok(());
    }
    let status = agent.status().map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
    let line = json!({
        "peer": measured.peer.to_string(),
        "rtt_ms": measured.rtt.ms(),
        "measured": status.counters.measured,
        "updates": status.updates,
        "lat": status.place.map(|place| place.0),
        "lon": status.place.map(|place| place.1),
        "height_ms": status.height_ms,
        "error": status.error,
    });
    terminal::print(&format!("{line}\n"))
}
