//! `cavy-live sched`: an embedded store behind HTTP and RESP, scheduled by a policy.
//!
//! tokio carries connections; the work itself runs on the workers of a [`cavy_live::Pool`], typed
//! by command or path. Reading order: `service` (what is done), `store`, `doors` (connections),
//! `http`, `resp`, `figures`.

mod doors;
mod figures;
mod http;
mod resp;
#[cfg(feature = "rocksdb")]
mod rocks;
mod service;
pub mod store;
mod watched;

use crate::args::{Door, PolicyName, Sched};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_core::Span;
use cavy_live::{Kind, Policy, Pool, Shutdown, darc};
use cavy_sched::distributed::Steering;
use doors::Ending;
use service::{Service, Timed, Work};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// A file would become longer than this process may make one (Linux).
const SIGXFSZ: i32 = 25;

/// Types of the store, in the order of their service times.
const STORE_TYPES: [&str; 3] = ["get", "set", "scan"];

/// Runs the command.
pub fn sched(args: &Sched) -> Result<ExitCode, Fault> {
    let workers = args.workers.unwrap_or_else(cores);
    let types = types(args)?;
    let policy = policy(args, workers, types.len())?;
    if args.http == Door::Off && args.resp == Door::Off {
        return Err(Fault::new("with --http off and --resp off the server would listen nowhere"));
    }
    let pool = pool(args, workers, &types, policy)?;
    // Kept to the end: it removes the folder.
    let folder = tempfile::tempdir()
        .map_err(|error| Fault::new(format!("cannot make a temporary folder: {error}")))?;
    let work = work(args, &pool, folder.path())?;
    let longest = args.value_bytes as usize;
    let service = Arc::new(Service::new(pool, work, args.keys, longest));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Fault::new(format!("cannot start tokio: {error}")).code(FAILED))?;
    let drained = runtime.block_on(serve(args, workers, &service))?;
    end(args, &service, drained);
    // Connections that did not end in time end here.
    runtime.shutdown_background();
    Ok(if drained { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(256) as u16)
}

fn types(args: &Sched) -> Result<Vec<String>, Fault> {
    if args.sleep_service.is_empty() {
        return Ok(STORE_TYPES.map(str::to_string).to_vec());
    }
    if args.store.is_some() {
        return Err(Fault::new("--store and --sleep-service exclude each other")
            .hint("a server either has a store or only waits for the service time"));
    }
    let names: Vec<String> = args.sleep_service.iter().map(|(name, _)| name.clone()).collect();
    let twice = |(index, name): &(usize, &String)| names[..*index].contains(name);
    match names.iter().enumerate().find(twice) {
        Some((_, name)) => Err(Fault::new(format!("--sleep-service {name} is given twice"))),
        None if names.len() > 60 => {
            Err(Fault::new(format!("{} --sleep-service are too many, at most 60", names.len())))
        }
        None => Ok(names),
    }
}

fn policy(args: &Sched, workers: u16, types: usize) -> Result<Policy, Fault> {
    if args.window.is_some() && args.policy != PolicyName::Darc {
        return Err(Fault::new("--window is for --policy darc only"));
    }
    Ok(match args.policy {
        PolicyName::Darc => match (darc(), args.window) {
            (Policy::Darc { config, hinted }, Some(window)) => {
                Policy::Darc { config: cavy_sched::darc::Config { window, ..config }, hinted }
            }
            (policy, _) => policy,
        },
        PolicyName::DarcStatic => {
            if types < 2 || args.reserved >= workers {
                return Err(Fault::new(format!(
                    "--reserved {} of {workers} workers leaves none for the other types",
                    args.reserved
                ))
                .hint("darc-static needs two types, and more --workers than --reserved"));
            }
            let rest: Vec<Kind> = (2..=types as u16).map(Kind).collect();
            let left = workers - args.reserved;
            Policy::DarcStatic { groups: vec![(vec![Kind(1)], args.reserved), (rest, left)] }
        }
        PolicyName::CFcfs => Policy::CentralFcfs,
        PolicyName::FixedPriority => Policy::FixedPriority,
        PolicyName::DFcfs => Policy::DistributedFcfs { steering: Steering::Random },
    })
}

fn pool(args: &Sched, workers: u16, types: &[String], policy: Policy) -> Result<Pool, Fault> {
    let mut builder = Pool::builder()
        .workers(workers)
        .types(types.iter().cloned())
        .policy(policy)
        .queue_limit(args.queue_limit)
        .thread_name("worker");
    if !args.pin.is_empty() {
        builder = builder.pin(args.pin.iter().copied());
    }
    if let Some(file) = &args.record {
        builder = builder.record(file);
    }
    builder.build().map_err(|error| Fault::new(error.to_string()))
}

fn work(args: &Sched, pool: &Pool, folder: &std::path::Path) -> Result<Work, Fault> {
    // The pool was built with these names.
    let kind = |name: &str| pool.kind(name).unwrap_or(Kind::UNKNOWN);
    if !args.sleep_service.is_empty() {
        let timed = args.sleep_service.iter().map(|(name, span)| Timed {
            name: name.clone(),
            kind: kind(name),
            span: *span,
        });
        return Ok(Work::Timed(timed.collect()));
    }
    let file = args.store.clone().unwrap_or_else(|| folder.join("store"));
    let store = store::open(&file, args.store.is_some()).map_err(|error| match error {
        store::StoreError::Full => Fault::new("the store is full"),
        store::StoreError::Library(reason) => {
            Fault::new(format!("cannot open --store {}: {reason}", file.display()))
        }
    })?;
    let [get, set, scan] = STORE_TYPES.map(kind);
    Ok(Work::Store { store: Arc::from(store), get, scan, set })
}

/// Serves until a signal, then until what is under way is done; false when that took too long.
async fn serve(args: &Sched, workers: u16, service: &Arc<Service>) -> Result<bool, Fault> {
    // Listening for signals comes first: from when the addresses are printed, Ctrl-C drains.
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Fault::new(format!("cannot listen for signals: {error}")).code(FAILED))
    };
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    // With this, a limit on the length of files is an error of the write and not the end of us.
    let _file_too_long = listen(SignalKind::from_raw(SIGXFSZ))?;
    let room = Arc::new(Semaphore::new(args.connections as usize));
    let patience = Duration::from_nanos(args.patience.as_ns());
    let (end, ending) = Ending::new();
    let mut doors: Vec<(&str, SocketAddr)> = Vec::new();
    if let Some((listener, address)) = open(args.http, "--http").await? {
        let router = http::router(Arc::clone(service), patience);
        let (shared, ends) = (Arc::clone(service), ending.clone());
        let serve = move |stream| {
            http::serve(stream, router.clone(), Arc::clone(&shared), patience, ends.clone())
        };
        let (room, service) = (Arc::clone(&room), Arc::clone(service));
        tokio::spawn(doors::accept(listener, room, service, ending.clone(), serve));
        doors.push(("http", address));
    }
    if let Some((listener, address)) = open(args.resp, "--resp").await? {
        let limits = resp::connection::Limits { pipeline: args.pipeline.into(), patience };
        let (shared, ends) = (Arc::clone(service), ending.clone());
        let serve = move |stream| {
            resp::connection::serve(stream, Arc::clone(&shared), limits, ends.clone())
        };
        let (room, service) = (Arc::clone(&room), Arc::clone(service));
        tokio::spawn(doors::accept(listener, room, service, ending.clone(), serve));
        doors.push(("resp", address));
    }
    announce(args, workers, &doors)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    terminal::talk("ending: what is under way is finished; once more to end at once");
    service.begin_to_end();
    let _ = end.send(true);
    let drained = tokio::select! {
        all = room.acquire_many(args.connections) => all.is_ok(),
        () = tokio::time::sleep(Duration::from_nanos(args.drain.as_ns())) => false,
        _ = interrupt.recv() => false,
        _ = terminate.recv() => false,
    };
    Ok(drained)
}

async fn open(door: Door, name: &str) -> Result<Option<(TcpListener, SocketAddr)>, Fault> {
    let Door::At(address) = door else { return Ok(None) };
    let failed = |error: std::io::Error| {
        Fault::new(format!("cannot listen on {name} {address}: {error}"))
            .hint("port 0 takes any port that is free; `off` turns this protocol off")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, address)))
}

/// Says where the server listens, on stdout, so that a script can read it.
fn announce(args: &Sched, workers: u16, doors: &[(&str, SocketAddr)]) -> Result<(), Fault> {
    if args.json {
        let mut all: serde_json::Map<String, serde_json::Value> =
            doors.iter().map(|(name, at)| (name.to_string(), at.to_string().into())).collect();
        all.insert("workers".into(), workers.into());
        return terminal::print(&format!("{}\n", serde_json::Value::Object(all)));
    }
    let mut text = String::new();
    for (name, address) in doors {
        let scheme = if *name == "resp" { "redis" } else { "http" };
        text.push_str(&format!("{name} {scheme}://{address}\n"));
    }
    let service: Vec<String> = args
        .sleep_service
        .iter()
        .map(|(name, span): &(String, Span)| format!("{name} {span}"))
        .collect();
    let service = match service.is_empty() {
        true => "embedded store".to_string(),
        false => format!("service emulated by waiting: {}", service.join(", ")),
    };
    terminal::talk(&format!("{workers} workers, {:?}, {service}; Ctrl-C ends", args.policy));
    terminal::print(&text)
}

/// Ends the pool, and the recording if there is one.
fn end(args: &Sched, service: &Service, drained: bool) {
    if !drained {
        terminal::talk("some requests were cut off");
        return;
    }
    service.pool.shutdown(Shutdown::Drain);
    match service.pool.finish_recording() {
        None => {}
        Some(Ok(summary)) => terminal::talk(&format!(
            "recorded {} inputs to {}, digest {:016x}",
            summary.inputs,
            args.record.as_deref().unwrap_or(std::path::Path::new("")).display(),
            summary.digest
        )),
        Some(Err(error)) => terminal::talk(&format!("the recording is not whole: {error}")),
    }
}
