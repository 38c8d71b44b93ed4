//! Where requests come from: our clients, or a foreign generator.

use super::{Whatif, failed};
use crate::faults::Fault;
use cavy_core::Span;
use cavy_groups::clients::{Clients, Headed, Load};
use cavy_groups::edge::Edge;
use cavy_groups::select::Selector;
use cavy_groups::source::Source;
use cavy_groups::stage::Stage;
use std::net::SocketAddr;
use std::time::Duration;

/// How often connections are looked at before a measurement, and for how long.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(50));

/// What was asked for, checked before anything is stopped.
pub enum Asked {
    /// Clients of this program.
    Own(Load),
    /// A generator, whose requests come in at a port.
    Foreign {
        /// Its name and processes.
        driver: (String, Selector),
        /// The port.
        port: u16,
    },
}

impl Asked {
    /// By the words of the command.
    pub fn of(args: &Whatif) -> Result<Asked, Fault> {
        if let Some(driver) = &args.driver {
            if args.services.iter().any(|(name, _)| *name == driver.0) {
                return Err(Fault::new(format!("--driver {}: a service has this name", driver.0))
                    .hint("give the generator a name of its own"));
            }
            let port = args.edge.ok_or_else(|| {
                Fault::new("--driver: nobody says where its requests come in")
                    .hint("give --edge PORT, the port of the server that it asks")
            })?;
            return Ok(Asked::Foreign { driver: driver.clone(), port });
        }
        let url = args.load.as_deref().ok_or_else(|| {
            Fault::new("no client would send requests to the services").hint(
                "give --load http://127.0.0.1:8080/, where clients of the application connect, or \
                 --driver NAME=SELECTOR for a generator that runs",
            )
        })?;
        let load = load(url, &args.headers, &args.request, args.clients)?;
        Ok(Asked::Own(Load { rate_per_s: args.rate, think: args.think, ..load }))
    }

    /// All that goes on the stage: the services, and a foreign generator after them.
    pub fn staged(&self, services: &[(String, Selector)]) -> Vec<(String, Selector)> {
        let driver = match self {
            Asked::Own(_) => None,
            Asked::Foreign { driver, .. } => Some(driver.clone()),
        };
        services.iter().cloned().chain(driver).collect()
    }

    /// Lets clients begin, or looks at the generator's connections. How many there are.
    pub fn start(self, args: &Whatif, stage: &Stage) -> Result<(Source, u32), Fault> {
        match self {
            Asked::Own(load) => {
                let clients = Clients::start(load).map_err(failed)?;
                if let Some(request) = args.less.as_ref().and_then(|less| less.request.as_deref()) {
                    clients.count_visits_with(of_kind(&args.request, request)?);
                }
                Ok((clients.into(), args.clients))
            }
            Asked::Foreign { driver, port } => watched(&driver.0, port, stage),
        }
    }
}

/// Which of the requests are `request`, by all they say or by their path.
pub fn of_kind(requests: &[String], request: &str) -> Result<Vec<bool>, Fault> {
    let path =
        |text: &str| text.split_whitespace().find(|word| word.starts_with('/')).map(str::to_string);
    let kinds: Vec<bool> = requests
        .iter()
        .map(|one| one == request || path(one).as_deref() == Some(request))
        .collect();
    if kinds.contains(&true) {
        return Ok(kinds);
    }
    let hint = match requests.is_empty() {
        true => "name each with --request, such as --request /cart --request /pay".to_string(),
        false => format!("there are {}", requests.join(", ")),
    };
    Err(Fault::new(format!("--less: clients send no request {request}")).hint(hint))
}

/// A generator whose connections stay: requests on those that end at once cannot be counted.
fn watched(name: &str, port: u16, stage: &Stage) -> Result<(Source, u32), Fault> {
    let first = stage.places().first().and_then(|place| place.origins.first());
    let pid = first.map_or(std::process::id() as i32, |origin| origin.pid);
    let gone_wrong = |error: std::io::Error| failed(format!("--edge {port}: {error}"));
    let mut edge = Edge::open(port, pid).map_err(gone_wrong)?;
    let mut requests = 0;
    for _ in 0..LOOKS.0 {
        std::thread::sleep(LOOKS.1);
        requests += edge.take().map_err(gone_wrong)?;
    }
    edge.take_reads();
    let (open, ended) = (edge.connections() as u32, edge.ended());
    if open == 0 && requests == 0 {
        return Err(Fault::new(format!("--edge {port}: nobody is connected there"))
            .hint(format!("is {name} at work, and is this the port that it asks?")));
    }
    if ended > u64::from(requests) / 10 {
        return Err(Fault::new(format!(
            "--driver {name}: {ended} connections ended while {requests} requests came in; \
             requests are counted on connections that stay"
        ))
        .hint("have it keep connections (keep-alive)"));
    }
    Ok((edge.into(), open))
}

/// Clients of this program, for a URL.
fn load(url: &str, headers: &[String], requests: &[String], clients: u32) -> Result<Load, Fault> {
    let wrong = |why: &str| {
        Fault::new(format!("--load {url}: {why}"))
            .hint("write http://HOST:PORT or http://HOST:PORT/PATH, with HOST as an IP address")
    };
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("only http:// is known"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let with_port = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
    let address: SocketAddr = with_port.parse().map_err(|_| wrong("it has no address"))?;
    let own = [format!("/{path}")];
    let requests = if requests.is_empty() { &own } else { requests };
    let types = u16::try_from(requests.len()).map_err(|_| wrong("too many requests"))?;
    let protocol = Headed::new(host, headers, requests).map_err(Fault::new)?;
    let protocol = Box::new(protocol);
    Ok(Load { address, clients, types, rate_per_s: None, think: None, protocol })
}

/// What `--less` saves.
#[derive(Clone, Debug, PartialEq)]
pub struct Less {
    /// How much.
    pub span: Span,
    /// With which requests of clients; with all of them when absent.
    pub request: Option<String>,
}

impl Less {
    /// `SPAN` or `SPAN@REQUEST`.
    pub fn read(text: &str) -> Result<Less, String> {
        let (span, request) = match text.split_once('@') {
            Some((span, request)) => (span, Some(request.trim().to_string())),
            None => (text, None),
        };
        if request.as_deref() == Some("") {
            return Err("write SPAN@REQUEST, such as 300us@/cart".to_string());
        }
        Ok(Less { span: crate::quantity::positive_span(span.trim())?, request })
    }

    /// The share of all requests with which it is saved: clients ask each kind in turn.
    pub fn share(&self, requests: &[String]) -> Result<f64, Fault> {
        let Some(request) = &self.request else { return Ok(1.0) };
        let kinds = of_kind(requests, request)?;
        Ok(kinds.iter().filter(|one| **one).count() as f64 / kinds.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        for (url, address) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/a/b?c=1", "127.0.0.1:8080"),
            ("http://10.0.0.1/", "10.0.0.1:80"),
        ] {
            let load = load(url, &[], &[], 1).map(|load| load.address.to_string());
            assert_eq!(load.ok().as_deref(), Some(address), "{url}");
        }
        for wrong in ["127.0.0.1:80", "https://127.0.0.1/", "http://", "http://x:y/"] {
            assert!(load(wrong, &[], &[], 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_saved_with_some_requests_only_counts_for_their_share() {
        let less = Less::read("300us@/cart").expect("a span and a request");
        assert_eq!(less.span, Span::from_us(300));
        let requests = ["/", "POST /cart {}", "/", "/cart"].map(str::to_string);
        assert_eq!(less.share(&requests).ok(), Some(0.5));
        assert_eq!(of_kind(&requests, "POST /cart {}").ok(), Some(vec![false, true, false, false]));
        assert!(less.share(&requests[..1]).is_err() && less.share(&[]).is_err());
        assert_eq!(Less::read("2ms").map(|less| less.share(&[]).ok()), Ok(Some(1.0)));
        for wrong in ["", "@/cart", "0us@/cart", "3us@", "3"] {
            assert!(Less::read(wrong).is_err(), "{wrong}");
        }
    }
}
