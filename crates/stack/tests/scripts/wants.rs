//! How long a script takes against a kernel, and what tells a kernel what the script sets.

use crate::words::{Script, number, span};
use cavy_core::Span;
use std::time::Duration;

/// Scripts that are shorter run so many times as slowly.
const SHORT: Span = Span::from_ms(600);
const SLOWER: u64 = 10;

/// Whether a script can be played, and how long it takes.
pub struct Outlook {
    pub slower: u64,
    pub takes: Span,
}

/// Lines before anything happens, and how a kernel can be told the same.
pub struct Wants {
    pub sysctls: Vec<(&'static str, String)>,
    pub route: String,
    pub congestion: &'static str,
    pub nodelay: bool,
    /// Leave quick acknowledgements at once, as a fixed delay would.
    pub unquick: bool,
    pub keepalive: Option<(Duration, Duration, u32)>,
    pub peer_isn: u32,
}

/// How long a script takes, and at what pace it runs.
pub fn outlook(script: &Script) -> Outlook {
    let mut whole = Span::ZERO;
    let mut real = false;
    for (_, line) in &script.lines {
        let first = line.split_whitespace().next().unwrap_or("");
        if let Some(time) = first.strip_prefix('+') {
            whole += span(time).unwrap_or(Span::ZERO);
        }
        whole += match first {
            "established" | "accepted" => Span::from_ms(10),
            _ => Span::ZERO,
        };
        // The kernel's delays of acknowledgements, its first timeout and its probes are what they
        // are.
        real |= line.starts_with("set delack") && !line.ends_with("off");
        real |= line.starts_with("set persist") || line.starts_with("set rto_init");
        real |= line.starts_with("set keepalive") || line == "set rack jiffies";
    }
    let slower = if real || whole > SHORT { 1 } else { SLOWER };
    Outlook { slower, takes: whole * slower }
}

pub fn wants(script: &Script, slower: u64) -> Result<Wants, String> {
    let mut rto_min = None;
    let mut window = 3;
    let mut quick = true;
    let mut stamps = "0";
    let mut sack = "1";
    let (mut ecn, mut idle, mut recovery, mut early) = ("0", "1", "0", "0");
    let mut challenge = Span::from_ms(500);
    let mut retries = 6;
    let mut frto = "0";
    let mut wanted = Wants {
        sysctls: Vec::new(),
        route: String::new(),
        congestion: "reno",
        nodelay: true,
        unquick: false,
        keepalive: None,
        peer_isn: 0x1000_0000,
    };
    for (_, line) in &script.lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"set") {
            continue;
        }
        let value = words.get(2).copied().ok_or("a value is missing")?;
        let yes = value == "on";
        let bit = if yes { "1" } else { "0" };
        match words[1] {
            "window" => window = number(Some(value))?,
            "sack" => sack = bit,
            "limited" | "prr" | "forget" => {}
            "idle_restart" => idle = bit,
            "nagle" => wanted.nodelay = !yes,
            "cubic" => wanted.congestion = "cubic",
            "ecn" if value == "classic" => ecn = "1",
            "ecn" if value == "off" => ecn = "0",
            "ecn" => return Err("this kernel has no DCTCP".to_string()),
            "stamps" if span(value).is_ok_and(|tick| tick == Span::from_ms(1)) => stamps = "1",
            "stamps" if value == "off" => stamps = "0",
            "stamps" => return Err("the kernel's timestamps tick every millisecond".to_string()),
            "rack" => {
                recovery = "1";
                early = if value == "fine" { "0" } else { "3" };
            }
            "undo" => frto = if matches!(value, "frto" | "all") { "2" } else { "0" },
            "delack" => {
                quick = value == "off";
                wanted.unquick = span(value).is_ok();
            }
            "keepalive" => {
                let seconds = |n: usize| -> Result<Duration, String> {
                    let time = span(words.get(n).copied().unwrap_or(""))?;
                    Ok(Duration::from_nanos(time.as_ns()))
                };
                if words.get(5) == Some(&"octet") {
                    return Err("the kernel's keepalive has no octet".to_string());
                }
                let probes = number(words.get(4).copied())?;
                wanted.keepalive = Some((seconds(2)?, seconds(3)?, probes));
            }
            "rto_min" => rto_min = Some(span(value)? * slower),
            "rto_init" if span(value)? == Span::from_ms(1_000) => {}
            "rto_init" => return Err("the kernel's first timeout is 1 s".to_string()),
            "floor" => {}
            "persist" if span(value)? == Span::from_ms(200) => {}
            "persist" => return Err("the kernel's first probe waits for 200 ms".to_string()),
            "challenge" => challenge = span(value)?,
            "handshake" => retries = number(Some(value))?,
            "time_wait" if span(value)? == Span::from_ms(60_000) => {}
            "time_wait" => return Err("the kernel's TIME-WAIT is 60 s".to_string()),
            "peer_isn" => wanted.peer_isn = number(Some(value))?,
            "wrap" => return Err("the kernel chooses its first number".to_string()),
            "buffer" => return Err("a buffer of the kernel is not counted in octets".to_string()),
            "reno" => return Err("the kernel repairs the next loss, too (RFC 6582)".to_string()),
            "halves_window" => {
                return Err("the kernel goes by what is under way (RFC 5681)".to_string());
            }
            "dupthresh" => return Err("the kernel counts no duplicates any more".to_string()),
            "strict" => return Err("the kernel is not strict about timestamps".to_string()),
            "retries" | "give_up" => {
                return Err("the kernel gives up by a count of its own".to_string());
            }
            "rto_max" => return Err("the kernel's longest timeout is 1 s or more".to_string()),
            other => return Err(format!("a kernel has no `{other}`")),
        }
    }
    // A short least timeout shortens the kernel's delay of acknowledgements, too.
    let usual = Span::from_ms(if quick { 8 } else { 200 });
    let rto_min_us = (rto_min.unwrap_or(usual).as_ns() / 1_000).max(8_000);
    wanted.sysctls = vec![
        ("tcp_timestamps", stamps.to_string()),
        ("tcp_sack", sack.to_string()),
        ("tcp_ecn", ecn.to_string()),
        ("tcp_slow_start_after_idle", idle.to_string()),
        ("tcp_recovery", recovery.to_string()),
        ("tcp_early_retrans", early.to_string()),
        ("tcp_frto", frto.to_string()),
        ("tcp_rto_min_us", rto_min_us.to_string()),
        ("tcp_invalid_ratelimit", ((challenge * slower).as_ns() / 1_000_000).to_string()),
        ("tcp_syn_linear_timeouts", "0".to_string()),
        ("tcp_syn_retries", retries.to_string()),
        ("tcp_no_metrics_save", "1".to_string()),
        ("tcp_rfc1337", "1".to_string()),
    ];
    wanted.route = format!("initcwnd {window}{}", if quick { " quickack 1" } else { "" });
    Ok(wanted)
}
