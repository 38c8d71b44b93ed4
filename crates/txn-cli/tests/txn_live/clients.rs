//! Unmodified clients.

use super::cluster::Cluster;
use super::resp::{Client, Reply};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn has(program: &str, args: &[&str]) -> bool {
    let run = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

fn redis_cli(port: u16, args: &[&str], input: &str) -> String {
    let mut child = Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim_end().to_string()
}

const TRANSFER: &str = "local have = tonumber(redis.call('GET', KEYS[1]) or '0')
if have < tonumber(ARGV[1]) then return redis.error_reply('POOR ' .. have) end
redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";

const PYTHON: &str = r#"
import sys, redis
a, b, pid = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
r = redis.Redis(port=a, decode_responses=True, protocol=int(sys.argv[4]))
p = r.pipeline(transaction=False)
for n in range(50): p.incr('{r0}:count')
assert p.execute() == list(range(1, 51))
p = r.pipeline(transaction=True)
p.set('{r0}:x', 1); p.set('{r1}:y', 2); p.mget('{r1}:y', '{r0}:x')
assert p.execute() == [True, True, ['2', '1']]
w = r.pipeline()
w.watch('{r0}:x', '{r1}:y')
redis.Redis(port=b).set('{r1}:y', 3)
w.multi(); w.incr('{r0}:x')
try:
    w.execute(); raise SystemExit('a conflict was not seen')
except redis.WatchError: pass
assert r.get('{r0}:x') == '1'
move = "redis.call('DECRBY', KEYS[1], ARGV[1])"
s = r.register_script(move + " return redis.call('INCRBY', KEYS[2], ARGV[1])")
assert s(keys=['{r0}:x', '{r1}:y'], args=[5]) == 8
assert r.mget('{r0}:x', '{r1}:y') == ['-4', '8']
try:
    r.lpush('{r0}:x', 1); raise SystemExit('no error')
except redis.ResponseError as e: assert str(e).startswith('WRONGTYPE'), e
r.hset('{r1}:h', mapping={'f': 1, 'g': 2})
assert r.hgetall('{r1}:h') == {'f': '1', 'g': '2'}
if pid:
    import os, signal, time
    os.kill(pid, signal.SIGKILL); time.sleep(0.1)
    try:
        r.get('{r0}:x'); raise SystemExit('a dead node answered')
    except redis.ConnectionError: pass
    r = redis.Redis(port=b, decode_responses=True)
    assert r.get('{r0}:x') == '-4'
    assert r.incr('{r0}:x') == -3
print('fine')
"#;

#[test]
fn clients_that_nobody_here_wrote_are_served() {
    let cluster = Cluster::start("2x1x3", 12, &["--fail-after-ms", "1500"]);
    let (home, far) = (cluster.at(0), cluster.at(4));
    if has("redis-cli", &["--version"]) {
        let lines = "set {r0}:a 1\nmset {r0}:a 10 {r1}:b 20\nmulti\nincr {r0}:a\nincr {r1}:b\n\
                     exec\nget {r1}:b\nlpush {r1}:b x\nnothing\n";
        let said = redis_cli(home, &[], lines);
        let expected = "OK\nOK\nOK\nQUEUED\nQUEUED\n11\n21\n21\nWRONGTYPE Operation against a key \
                        holding the wrong kind of value\n\nERR unknown command 'nothing'";
        assert_eq!(said, expected);
        let script = |amount| ["eval", TRANSFER, "2", "{r0}:a", "{r1}:b", amount];
        assert_eq!(redis_cli(far, &script("11"), ""), "32");
        assert_eq!(redis_cli(far, &script("11"), ""), "POOR 0");
        assert_eq!(redis_cli(far, &["-3", "hgetall", "{r0}:none"], ""), "");
    } else {
        eprintln!("SKIPPED: redis-cli is not installed (apt-get install redis-tools)");
    }
    if has("redis-benchmark", &["--version"]) {
        let out = Command::new("redis-benchmark")
            .args(["-p", &home.to_string(), "-n", "200", "-c", "10", "-r", "50", "--csv", "eval"])
            .args([TRANSFER, "2", "{r0}:__rand_int__", "{r1}:__rand_int__", "0"])
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && text.contains("\"rps\""), "{text}");
    } else {
        eprintln!("SKIPPED: redis-benchmark is not installed (apt-get install redis-tools)");
    }
    if has("python3", &["-c", "import redis"]) {
        // The second time its node is killed in the middle.
        for (protocol, pid) in [("3", 0), ("2", cluster.pids[0])] {
            if protocol == "2" {
                let mut client = Client::connect(home).unwrap();
                client.ask("DEL {r0}:count {r0}:x {r1}:y {r1}:h").unwrap();
            }
            let out = Command::new("python3")
                .args(["-c", PYTHON, &home.to_string(), &far.to_string()])
                .args([&pid.to_string(), protocol])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&out.stdout).trim_end().to_string();
            assert_eq!(said, "fine", "{}", String::from_utf8_lossy(&out.stderr));
        }
    } else {
        eprintln!("SKIPPED: redis-py is not installed (pip install redis)");
    }
    cluster.end();
}

/// Runs a client's program against a cluster of its own: for each of `protocols`, and the last time
/// its node is killed in the middle.
fn serves(program: &mut dyn FnMut() -> Command, protocols: &[&str]) {
    let cluster = Cluster::start("2x1x3", 12, &["--fail-after-ms", "3000"]);
    for (turn, protocol) in protocols.iter().enumerate() {
        let killed = if turn + 1 == protocols.len() { cluster.pids[0] } else { 0 };
        let given = [cluster.at(0).to_string(), cluster.at(4).to_string(), killed.to_string()];
        let out = program().args(given).arg(protocol).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).trim_end().to_string();
        assert_eq!(said, "fine", "{}", String::from_utf8_lossy(&out.stderr));
    }
    cluster.end();
}

#[test]
fn ioredis_is_served() {
    // `npm install -g ioredis` puts it where only this finds it.
    let root = Command::new("npm").args(["root", "-g"]).output();
    let root = root.map_or_else(|_| Vec::new(), |out| out.stdout);
    let root = String::from_utf8_lossy(&root).trim().to_string();
    let node = || {
        let mut node = Command::new("node");
        node.env("NODE_PATH", &root);
        node
    };
    let there = node().args(["-e", "require('ioredis')"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: ioredis is not installed (npm install -g ioredis)");
        return;
    }
    let mut program = || {
        let mut node = node();
        node.args(["-e", include_str!("foreign/ioredis.js"), "--"]);
        node
    };
    serves(&mut program, &["0", "0"]);
}

#[test]
fn go_redis_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("go.mod", "module clients\n\ngo 1.24\n\nrequire github.com/redis/go-redis/v9 v9.23.0\n");
    write("main.go", include_str!("foreign/goredis.go"));
    // Only what has been fetched before: a test asks no registry.
    let mut go = Command::new("go");
    go.args(["build", "-o", "client", "."]).current_dir(folder.path());
    go.envs([("GOPROXY", "off"), ("GOSUMDB", "off"), ("GOFLAGS", "-mod=mod")]);
    let is_at_fault =
        |said: &str| said.contains("main.go:") && !said.contains("disabled by GOPROXY=off");
    match go.output() {
        Ok(out) if out.status.success() => {}
        // Its own faults are faults; a module that is missing and an old compiler are not.
        Ok(out) if is_at_fault(&String::from_utf8_lossy(&out.stderr)) => {
            panic!("{}", String::from_utf8_lossy(&out.stderr))
        }
        _ => {
            let get = "go mod download github.com/redis/go-redis/v9@v9.23.0";
            eprintln!("SKIPPED: go-redis is not there ({get})");
            return;
        }
    }
    serves(&mut || Command::new(folder.path().join("client")), &["3", "2"]);
}

#[test]
fn hostile_words_end_in_errors_and_the_rest_is_served() {
    let cluster = Cluster::start("1x1x3", 6, &["--fail-after-ms", "1500"]);
    let mut client = Client::connect(cluster.at(0)).unwrap();
    for (line, error) in [
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("EVAL x", "ERR wrong number of arguments for 'eval' command"),
        ("EVALSHA abc 0", "NOSCRIPT No matching script. Please use EVAL."),
        ("EVAL return 2 a", "ERR Number of keys can't be greater than number of args"),
        ("EXEC", "ERR EXEC without MULTI"),
        ("AUTH x", "ERR AUTH <password> called without any password configured"),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("SELECT 3", "ERR DB index is out of range"),
    ] {
        assert_eq!(client.ask(line).unwrap(), Reply::Error(error.into()), "{line}");
    }
    client.send(&["EVAL", "while true do end", "0"]).unwrap();
    let endless = client.reply().unwrap();
    assert!(matches!(&endless, Reply::Error(text) if text.contains("too many instructions")));
    // A transaction that is too long is refused whole.
    client.ask("MULTI").unwrap();
    for _ in 0..10_100 {
        client.send(&["PING"]).unwrap();
    }
    let last = (0..10_100).map(|_| client.reply().unwrap()).last().unwrap();
    assert!(matches!(last, Reply::Error(_)), "{last:?}");
    assert!(
        matches!(client.ask("EXEC").unwrap(), Reply::Error(text) if text.starts_with("EXECABORT"))
    );
    // Lengths that lie, and a value beyond what a value may be.
    for bytes in ["*1\r\n$999999999999\r\n", "*2\r\n$3\r\nGET\r\n$600000000\r\n", "*-x\r\n"] {
        let mut raw = std::net::TcpStream::connect(("127.0.0.1", cluster.at(0))).unwrap();
        raw.write_all(bytes.as_bytes()).unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut raw, &mut said).unwrap();
        assert!(said.starts_with("-ERR Protocol error"), "{said}");
    }
    assert_eq!(client.ask("SET a 1").unwrap(), Reply::Text("OK".into()));
    cluster.end();
}

/// What one client has seen is before whatever another one asks with its token, in any region, also
/// where that one's clock is behind.
#[test]
fn tokens_order_what_two_clients_do_in_two_regions() {
    let cluster = Cluster::start("2x1x3", 12, &["--fail-after-ms", "2000"]);
    let mut one = Client::connect(cluster.at(0)).unwrap();
    let mut other = Client::connect(cluster.at(3)).unwrap();
    let time = |token: &Reply| -> u64 {
        let Reply::Text(text) = token else { panic!("{token:?}") };
        text.split('.').next().unwrap().parse().unwrap()
    };
    // The first region's clock is ahead by a second, so what is stamped there lies in the future of
    // the other.
    one.ask("CAVY CLOCK 1000").unwrap();
    one.ask("SET {r0}:k 1").unwrap();
    one.ask("SET {r0}:k 2").unwrap();
    let token = one.ask("CAVY TOKEN").unwrap();
    let Reply::Text(text) = &token else { panic!("{token:?}") };
    assert_eq!(other.ask(&format!("CAVY AFTER {text}")).unwrap(), Reply::Text("OK".into()));
    let began = std::time::Instant::now();
    other.ask("SET {r1}:k 3").unwrap();
    let own = other.ask("CAVY TOKEN").unwrap();
    assert!(time(&own) > time(&token), "{own:?} is not after {token:?}");
    assert!(began.elapsed().as_millis() >= 500, "it was held back until its clock came there");
    for wrong in ["CAVY AFTER x", "CAVY AFTER 9999999999999999999.0.0"] {
        assert!(matches!(other.ask(wrong).unwrap(), Reply::Error(_)), "{wrong}");
    }
    cluster.end();
}
