//! How all nodes of a cluster are.

use crate::config::Config;
use crate::{Fault, say};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1);

/// What a node says of itself, by name.
pub(crate) fn ask(address: SocketAddr) -> std::io::Result<Vec<(String, String)>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /status HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let pairs = body.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect())
}

pub(crate) fn status(config: &Config) -> Result<ExitCode, Fault> {
    const COLUMNS: [(&str, usize); 9] = [
        ("ready", 6),
        ("life", 5),
        ("view", 5),
        ("live", 5),
        ("steward", 8),
        ("backlog", 8),
        ("coordinating", 13),
        ("peers_up", 9),
        ("late_p99_ms", 12),
    ];
    let mut head = format!("{:>4}  {:<28}", "node", "part");
    for (name, width) in COLUMNS {
        head += &format!(" {name:>width$}");
    }
    say(&head);
    let mut down = 0;
    for node in &config.nodes {
        let found = node.status.map(ask);
        let mut line = format!("{:>4}  {:<28}", node.id, config.part(node.id));
        match found {
            Some(Ok(pairs)) if !pairs.is_empty() => {
                for (name, width) in COLUMNS {
                    let value = pairs.iter().find(|(known, _)| known == name);
                    line += &format!(" {:>width$}", value.map_or("", |(_, value)| value));
                }
                if let Some((_, whom)) = pairs.iter().find(|(name, _)| name == "waits_for") {
                    line += &format!("  cannot spare {whom}, and does not hear them");
                }
                if let Some((_, why)) = pairs.iter().find(|(name, _)| name == "refused") {
                    line += &format!("  {why}");
                }
            }
            _ => {
                down += 1;
                line += " does not answer";
            }
        }
        say(&line);
    }
    Ok(if down == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
