//! The service on its socket: what foreign clients get, what slow and greedy ones do not, and what
//! is there after kill -9.

use cavy_agents::directory::log::Log;
use cavy_agents::echo::Echo;
use cavy_agents::http::{Options, Server};
use cavy_agents::report::{self, Reporter};
use cavy_agents::service::{Limits, Service};
use cavy_agents::{Agent, Options as AgentOptions, Reach};
use cavy_coords::Config;
use cavy_core::Span;
use cavy_places::Places;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn start(folder: &Path, options: &Options) -> Server {
    let (log, directory, _) = Log::open(folder, Config::default()).expect("a folder");
    let limits = Limits { body_bytes: 10_000, ..Limits::default() };
    let service = Service::new(directory, Some(log), Places::default(), limits, true);
    Server::start(Arc::new(service), options, |_| {}).expect("it listens")
}

/// One request on a connection of its own; status and body.
fn ask(at: SocketAddr, head: &str, body: &str) -> (u16, Value) {
    ask_on(TcpStream::connect(at).expect("a server"), head, body)
}

fn ask_on(mut stream: TcpStream, head: &str, body: &str) -> (u16, Value) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let _ = stream.write_all(text.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, serde_json::from_str(body).unwrap_or(Value::String(body.to_string())))
}

/// Asks again until that is the answer, half a minute at most: a server may give up a client that
/// a busy machine stopped.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = cavy_clock::now();
    while !holds() {
        assert!(cavy_clock::now().since(began) < Span::from_ms(30_000), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn clients_that_are_slow_or_greedy_are_ended_and_others_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        Options { patience: Duration::from_millis(500), connections: 8, ..Options::new(any()) };
    let server = start(folder.path(), &options);
    let at = server.address();
    // Half a head, half a body, nothing at all.
    let mut slow: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(at).expect("it")).collect();
    slow[0].write_all(b"GET /live HT").expect("sent");
    slow[1].write_all(b"POST /v1/nodes HTTP/1.1\r\nContent-Length: 50\r\n\r\n{").expect("sent");
    until("it is served", || ask(at, "GET /live", "") == (200, json!("ok\n")));
    let long = "x".repeat(10_001);
    until("too long", || ask(at, "POST /v1/nodes", &long).0 == 413);
    // What is announced as too long is refused before it comes.
    let mut greedy = TcpStream::connect(at).expect("it");
    greedy.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
    greedy.write_all(b"POST /v1/nodes HTTP/1.1\r\nContent-Length: 10001\r\n\r\n").expect("sent");
    let mut answer = String::new();
    greedy.read_to_string(&mut answer).expect("an answer, and its end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    for stream in &mut slow[..2] {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
        let mut answer = Vec::new();
        // It is closed, with a word or without, or reset.
        let end = stream.read_to_end(&mut answer);
        let late = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!end.is_err_and(late), "it is not ended");
    }
    until("it is served", || ask(at, "GET /metrics", "").0 == 200);
    let (_, metrics) = ask(at, "GET /metrics", "");
    let metrics = metrics.as_str().expect("text");
    assert!(!metrics.contains("answer_seconds_count{call=\"other\"} 0"), "{metrics}");
    // More connections than there is room for are closed at once.
    let held: Vec<TcpStream> = (0..12).filter_map(|_| TcpStream::connect(at).ok()).collect();
    until("some are turned away", || server.turned_away() > 0);
    drop(held);
    until("it is served again", || ask(at, "GET /live", "").0 == 200);
}

#[test]
fn without_a_token_it_is_for_this_host_alone_and_with_one_for_holders() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, directory, _) = Log::open(folder.path(), Config::default()).expect("a folder");
    let service = Service::new(directory, Some(log), Places::default(), Limits::default(), true);
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let service = Arc::new(service);
    let refused = Server::start(Arc::clone(&service), &Options::new(everywhere), |_| {});
    assert!(refused.is_err_and(|error| error.to_string().contains("give a token")));
    let options = Options { token: Some("secret".to_string()), ..Options::new(any()) };
    let server = Server::start(service, &options, |_| {}).expect("it listens");
    let at = server.address();
    assert_eq!(ask(at, "GET /v1/catalog/nodes", "").0, 401);
    for (header, status) in [
        ("Authorization: Bearer secret", 200),
        ("X-Consul-Token: secret", 200),
        ("Authorization: Bearer other", 401),
    ] {
        let head = format!("GET /v1/catalog/nodes HTTP/1.1\r\n{header}\r\nX:");
        assert_eq!(ask(at, &head, "").0, status, "{header}");
    }
    assert_eq!(ask(at, "GET /live", "").0, 200);
}

/// The server of `after_kill_9...`, which starts it as a process.
#[test]
#[ignore = "the server of another test, which starts it as a process"]
fn server_process() {
    #[allow(clippy::disallowed_methods)] // the test that starts it says where
    let folder = std::env::var("CAVY_FOLDER").expect("a folder");
    let server = start(Path::new(&folder), &Options::new(any()));
    println!("\nlistens {}", server.address());
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn process(folder: &Path) -> (Child, SocketAddr) {
    let own = std::env::current_exe().expect("this program");
    let mut child = Command::new(own)
        .args(["server_process", "--exact", "--ignored", "--nocapture"])
        .env("CAVY_FOLDER", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let at = lines.find_map(|line| line.ok()?.strip_prefix("listens ")?.parse().ok());
    (child, at.expect("where it listens"))
}

#[test]
fn after_kill_9_everything_that_was_answered_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    for round in 0..3 {
        let (mut child, at) = process(folder.path());
        // Killed while four clients write, after some were answered.
        let answered = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let answered = Arc::clone(&answered);
                std::thread::spawn(move || {
                    let mut done = Vec::new();
                    for node in 0..4_000 {
                        let id = format!("r{round}w{writer}n{node}");
                        let body = json!({ "id": id, "lat": 1.0, "lon": 2.0 });
                        // The server is killed meanwhile.
                        let Ok(stream) = TcpStream::connect(at) else { break };
                        if ask_on(stream, "POST /v1/nodes", &body.to_string()).0 != 201 {
                            break;
                        }
                        done.push(id);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        until("answers", || answered.load(Ordering::Relaxed) >= 40);
        child.kill().expect("killed");
        child.wait().expect("gone");
        let done = writers.into_iter().flat_map(|writer| writer.join().expect("it ends"));
        let before = all.len();
        all.extend(done);
        assert!(all.len() > before, "round {round}");
        let (mut child, at) = process(folder.path());
        for id in &all {
            assert_eq!(ask(at, &format!("GET /v1/nodes/{id}"), "").0, 200, "{id}");
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
}

#[test]
fn agents_report_and_what_the_service_missed_while_it_was_away_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = |latitude: f64| {
        let options = AgentOptions { every: None, ..AgentOptions::new(any()).at(latitude, 10.0) };
        Agent::start(&options).expect("an agent")
    };
    let (one, two) = (agent(50.0), agent(40.0));
    let server = start(folder.path(), &Options::new(any()));
    let at = server.address();
    let reporter = |agent: &Agent| {
        let options = report::Options {
            service: at,
            token: None,
            id: agent.local_address().to_string(),
            ip: None,
            place: Some((50.0, 10.0)),
            class: "server".to_string(),
            reach: Reach::default(),
        };
        Reporter::new(options, 7).expect("a reporter")
    };
    let (mut first, mut second) = (reporter(&one), reporter(&two));
    second.tell(&two.status().expect("it runs")).expect("told");
    first.tell(&one.status().expect("it runs")).expect("told");
    one.probe(two.local_address()).expect("it runs").expect("a reply");
    // The service is away; the agent goes on.
    drop(server);
    let heard = one.measurements().recv_timeout(Duration::from_secs(10));
    first.note(&heard.expect("a measurement"));
    assert!(first.tell(&one.status().expect("it runs")).is_err());
    assert_eq!((first.waiting(), first.told), (1, 0));
    let server = start(folder.path(), &Options::new(at));
    first.tell(&one.status().expect("it runs")).expect("told");
    assert_eq!((first.waiting(), first.told, first.dropped), (0, 1, 0));
    let (from, to) = (one.local_address(), two.local_address());
    let (_, said) = ask(server.address(), &format!("GET /v1/rtt?from={from}&to={to}"), "");
    assert_eq!(said[0]["source"], "history", "{said}");
    let (_, node) = ask(server.address(), &format!("GET /v1/nodes/{from}"), "");
    assert_eq!((&node["kept_by"], &node["coord"]["updates"]), (&json!("agent"), &json!(1)));
}

#[test]
fn an_echo_gives_back_what_came_and_not_too_often() {
    let echo = Echo::start(any()).expect("it listens");
    let socket = UdpSocket::bind(any()).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("an option");
    socket.connect(echo.address()).expect("an address");
    let began = cavy_clock::now();
    let mut bytes = [0; 100];
    socket.send(b"ping 1").expect("sent");
    let length = socket.recv(&mut bytes).expect("an echo");
    assert_eq!(&bytes[..length], b"ping 1");
    for _ in 0..400 {
        socket.send(b"x").expect("sent");
    }
    let mut back = 0;
    while socket.recv(&mut bytes).is_ok() {
        back += 1;
    }
    // Seconds may have ended in between; the last one brought nothing.
    let seconds = cavy_clock::now().since(began).as_us() / 1e6;
    let most = 100 * (1 + seconds.ceil() as u64);
    assert!(back >= 50 && back <= most.min(300), "{back} in {seconds} s");
}

/// A client of another hand, in Python or Go; `None` when it cannot be had here, with the reason
/// said.
fn foreign(name: &str, mut command: Command) -> Option<String> {
    match command.output() {
        Ok(done) if done.status.success() => {
            Some(String::from_utf8_lossy(&done.stdout).into_owned())
        }
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().last().unwrap_or("no word");
            assert!(!said.contains("AssertionError") && !said.contains("FAILED"), "{name}: {said}");
            eprintln!("SKIPPED: {name}: {last}");
            None
        }
        Err(error) => {
            eprintln!("SKIPPED: {name}: {error}");
            None
        }
    }
}

fn with_cities(folder: &Path) -> Server {
    let server = start(folder, &Options::new(any()));
    for (id, lat, lon) in
        [("frankfurt", 50.1, 8.7), ("virginia", 38.9, -77.4), ("tokyo", 35.7, 139.7)]
    {
        let body = json!({ "id": id, "lat": lat, "lon": lon, "class": "game", "ip": "192.0.2.1" });
        assert_eq!(ask(server.address(), "POST /v1/nodes", &body.to_string()).0, 201);
    }
    let body = json!({ "id": "alice", "lat": 48.9, "lon": 2.4, "class": "player" });
    assert_eq!(ask(server.address(), "POST /v1/nodes", &body.to_string()).0, 201);
    server
}

/// PyPI's `py-consul`, unmodified: `pip install py-consul` first.
#[test]
fn py_consul_reads_coordinates_and_sorted_catalogues() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = with_cities(folder.path());
    let program = "import sys, consul\n\
        c = consul.Consul(host='127.0.0.1', port=int(sys.argv[1]))\n\
        _, nodes = c.coordinate.nodes()\n\
        assert len(nodes) == 4, nodes\n\
        assert len(nodes[0]['Coord']['Vec']) == 8, nodes[0]\n\
        assert c.coordinate.datacenters()[0]['Datacenter'] == 'dc1'\n\
        _, near = c.catalog.nodes(near='alice')\n\
        assert [n['Node'] for n in near] == ['alice','frankfurt','virginia','tokyo'], near\n\
        _, near = c.catalog.service('game', near='alice')\n\
        assert [n['Node'] for n in near] == ['frankfurt','virginia','tokyo'], near\n\
        print('py-consul', near[0]['ServiceName'], near[0]['Address'])\n";
    let mut command = Command::new("python3");
    command.args(["-c", program, &server.address().port().to_string()]);
    if let Some(said) = foreign("py-consul", command) {
        assert_eq!(said.trim(), "py-consul game 192.0.2.1");
    }
}

/// HashiCorp's own Go packages, unmodified: serf's `DistanceTo` on what we publish, and Consul's
/// client. Skipped where Go or its modules are not there.
#[test]
fn go_s_consul_api_and_serf_s_distance_agree_with_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = with_cities(folder.path());
    #[allow(clippy::disallowed_methods)] // a program that was built before saves a minute
    let Ok(program) = std::env::var("CAVY_CONSUL_CLIENT") else {
        eprintln!("SKIPPED: CAVY_CONSUL_CLIENT names no program; tests/consul/README.md builds it");
        return;
    };
    let mut command = Command::new(program);
    command.arg(server.address().to_string());
    let Some(said) = foreign("consul/api", command) else { return };
    let said: Value = serde_json::from_str(&said).expect("an object");
    assert_eq!(said["near"], json!(["frankfurt", "virginia", "tokyo"]), "{said}");
    for (pair, ms) in said["distance_ms"].as_object().expect("pairs") {
        let (from, to) = pair.split_once('>').expect("two names");
        let (_, ours) = ask(server.address(), &format!("GET /v1/rtt?from={from}&to={to}"), "");
        let (ours, theirs) = (ours[0]["rtt_ms"].as_f64().unwrap(), ms.as_f64().unwrap());
        // Under 3,100 km within 1 % and 0.2 ms; beyond, a chord is shorter than its arc.
        let near = ours < 0.018_8 * 3_100.0 + 8.8;
        let within = if near { 0.01 * ours + 0.2 } else { 0.36 * ours };
        assert!((ours - theirs).abs() <= within, "{pair}: {ours} and {theirs}");
    }
}
