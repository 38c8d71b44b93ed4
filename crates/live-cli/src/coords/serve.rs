//! Answering who is near whom.

use super::secret;
use super::typed::ServeArgs;
use crate::faults::Fault;
use crate::signals::{self, Second};
use crate::terminal;
use cavy_agents::directory::Directory;
use cavy_agents::directory::log::Log;
use cavy_agents::http::{Options, Server};
use cavy_agents::service::{Limits, Service};
use cavy_coords::Config;
use cavy_places::Places;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Runs the command.
pub fn serve(args: &ServeArgs) -> Result<ExitCode, Fault> {
    let token = args.token_file.as_deref().map(|path| secret("--token-file", path)).transpose()?;
    let model = Config::default();
    let (log, directory) = match &args.data {
        Some(folder) => {
            let (log, directory, loaded) = Log::open(folder, model).map_err(|error| {
                Fault::new(format!("cannot use --data {}: {error}", folder.display()))
            })?;
            let torn = match loaded.torn {
                0 => String::new(),
                bytes => format!(", {bytes} bytes at its end cut off, which are no whole change"),
            };
            let (nodes, changes) = (loaded.nodes, loaded.changes);
            terminal::talk(&format!("{nodes} nodes, {changes} changes of the log{torn}"));
            (Some(log), directory)
        }
        None => (None, Directory::new(model)),
    };
    let places = Places::new(args.mmdb.clone(), args.systems.clone());
    let limits = Limits { nodes: args.nodes as usize, ..Limits::default() };
    let service = Arc::new(Service::new(directory, log, places, limits, args.consul));
    let ended = signals::told(Second::Waits)?;
    let options = Options {
        token,
        connections: args.connections as usize,
        patience: Duration::from_nanos(args.patience.as_ns()),
        ..Options::new(args.bind)
    };
    let server = Server::start(service, &options, terminal::talk).map_err(|error| {
        Fault::new(format!("cannot listen on --bind {}: {error}", args.bind)).hint(
            "port 0 takes any port that is free; with --token-file other machines can connect",
        )
    })?;
    let at = server.address();
    if args.json {
        terminal::print(&format!("{}\n", json!({ "http": at.to_string() })))?;
    } else {
        terminal::print(&format!("http://{at}\n"))?;
        terminal::talk("Ctrl-C ends");
    }
    let _ = ended.recv();
    drop(server);
    Ok(ExitCode::SUCCESS)
}
