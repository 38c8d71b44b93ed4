//! The first commands of the guides, run as they stand there: `make guides`.
//!
//! Each guide is run in a folder of its own with what a reader would have in it. What a page shows
//! below a command must be among what the command prints. The tutorial and the README have tests of
//! their own (`crates/cli/tests/guides.rs`).

use crate::root;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A guide, and what of it is run.
pub struct Guide {
    /// Name of the page in `docs/guides`, without its ending.
    pub page: &'static str,
    /// Files that the reader has, and the block of the page with each: its language and place.
    pub files: &'static [(&'static str, &'static str, usize)],
    /// Does the reader come with a plan, `plan.toml`?
    pub has_plan: bool,
    /// The block of shell that starts a server in a terminal of its own.
    pub serves: Option<usize>,
    /// The blocks of shell that are run to their end, in order.
    pub runs: &'static [usize],
    /// Words of a command that take less time here than in the guide, and what stands for them.
    pub shorter: &'static [(&'static str, &'static str)],
}

const LAB: Guide =
    Guide { page: "", files: &[], has_plan: false, serves: None, runs: &[0], shorter: &[] };

/// The guides that are run.
pub const GUIDES: [Guide; 10] = [
    Guide { page: "answers-collide", ..LAB },
    Guide { page: "compare-transports", ..LAB },
    Guide { page: "spread-a-search", ..LAB },
    Guide { page: "which-remedy", ..LAB },
    Guide { page: "long-runs", has_plan: true, ..LAB },
    Guide { page: "read-a-report", has_plan: true, ..LAB },
    Guide {
        page: "nearest-region",
        files: &[("nodes.csv", "csv", 0), ("pairs.csv", "csv", 1)],
        runs: &[0, 2, 3],
        ..LAB
    },
    Guide {
        page: "drive-a-live-server",
        serves: Some(0),
        runs: &[1, 2],
        shorter: &[("--duration 100s", "--duration 3s"), ("--warmup 10s", "--warmup 1s")],
        ..LAB
    },
    Guide {
        page: "replace-a-tcp-hop",
        serves: Some(0),
        runs: &[1],
        shorter: &[("--duration 1min", "--duration 2s")],
        ..LAB
    },
    Guide { page: "transactions-across-regions", serves: Some(0), runs: &[], ..LAB },
];

/// The guides that are not, and why.
pub const NOT_RUN: [(&str, &str); 8] = [
    ("add-a-protocol", "compiles an example and its tests; `make unit` compiles and runs those"),
    ("add-a-transport", "compiles an example; `make unit` compiles it as well"),
    ("compare-policies", "has no commands; its plans are tested as those of users"),
    ("microsecond-timeouts", "needs two hosts; crates/live-cli/tests/tcp.rs builds them"),
    ("protect-short-requests", "compiles an example; `make unit` compiles it as well"),
    ("rank-running-services", "needs services; crates/live-cli/tests/whatif.rs starts some"),
    ("search-cluster", "needs `make search`, ten minutes; `make search-test` tests the cluster"),
    ("use-measured-data", "has no commands; crates/cli/tests/traces.rs has its plans"),
];

/// A plan as a reader may have it, small.
const PLAN: &str = r#"kind = "server"
title = "My service"
workers = 8
objectives = ["p99_slowdown <= 20"]
types = [
  { name = "get", share = 0.9, service = { dist = "exponential", mean_us = 20 } },
  { name = "scan", share = 0.1, service = { dist = "exponential", mean_us = 400 } },
]
policies = [{ policy = "c_fcfs" }, { policy = "darc", window = 5000 }]
sweep = { load = [0.3, 0.5, 0.7] }
run = { requests = 40_000, requests_max = 1_000_000, replications = 5 }
"#;

/// A block of code: its language, and what is in it.
pub type Block = (String, String);

/// The blocks of code of a page, also those in lists.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut all = Vec::new();
    let mut open: Option<Block> = None;
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some((language.to_string(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => all.extend(open.take()),
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    block.push_str(&text);
                }
            }
            _ => {}
        }
    }
    all
}

/// The place of block number `count` of a language.
fn place(blocks: &[Block], language: &str, count: usize) -> Result<usize, String> {
    let mut all = (0..blocks.len()).filter(|&at| blocks[at].0 == language);
    all.nth(count).ok_or_else(|| format!("it has no block of `{language}` number {count}"))
}

/// Runs a guide in `folder` with the programs of `path`; what was said.
///
/// # Errors
/// A sentence about the first command that fails, or does not print what the page shows.
pub fn run(guide: &Guide, folder: &Path, path: &str) -> Result<String, String> {
    let page = root().join("docs/guides").join(format!("{}.md", guide.page));
    let text = fs::read_to_string(&page).map_err(|error| error.to_string())?;
    let blocks = blocks(&text);
    for (name, language, count) in guide.files {
        let block = &blocks[place(&blocks, language, *count)?].1;
        fs::write(folder.join(name), block).map_err(|error| error.to_string())?;
    }
    if guide.has_plan {
        fs::write(folder.join("plan.toml"), PLAN).map_err(|error| error.to_string())?;
    }
    let shell = |at: usize| -> Result<(usize, String), String> {
        let at = place(&blocks, "sh", at)?;
        let mut text = blocks[at].1.clone();
        for (words, fewer) in guide.shorter {
            text = text.replace(words, fewer);
        }
        // What the reader has built by now.
        let lines = text.lines().filter(|line| !line.starts_with("make "));
        Ok((at, lines.map(|line| format!("{line}\n")).collect()))
    };
    let mut said = String::new();
    let mut server = None;
    if let Some(at) = guide.serves {
        let (_, text) = shell(at)?;
        said.push_str(&quoted(&text));
        server = Some(Server::start(&text, folder, path)?);
    }
    for at in guide.runs {
        let (at, text) = shell(*at)?;
        let printed = call(&text, folder, path)?;
        said.push_str(&(quoted(&text) + &printed));
        let shown = blocks[at + 1..].iter().take_while(|(language, _)| language == "text");
        shown.map(|(_, block)| has_lines(&printed, block)).collect::<Result<Vec<_>, _>>()?;
    }
    if let Some(server) = server {
        said.push_str(&server.end()?);
    }
    Ok(said)
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("$ {line}\n")).collect()
}

fn shell(text: &str, folder: &Path, path: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-e", "-c", text]).current_dir(folder).env("PATH", path).env("COLUMNS", "100");
    command.stdin(Stdio::null());
    command
}

/// Runs a block to its end; what it printed. A load generator may refuse its percentiles (3) where
/// the machine is busy, which a reader sees as well.
fn call(text: &str, folder: &Path, path: &str) -> Result<String, String> {
    let output = shell(text, folder, path).output().map_err(|error| format!("bash: {error}"))?;
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = words(&output.stdout) + &words(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(all),
        Some(3) if text.contains("load ") => Ok(all),
        code => Err(format!("{}{all}ended with {code:?}", quoted(text))),
    }
}

/// A server in a terminal of its own.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    fn start(text: &str, folder: &Path, path: &str) -> Result<Server, String> {
        let log = folder.join("server.txt");
        let file = File::create(&log).map_err(|error| error.to_string())?;
        let also = file.try_clone().map_err(|error| error.to_string())?;
        let mut command = shell(&format!("exec {text}"), folder, path);
        let child = command.stdout(file).stderr(also).spawn();
        let child = child.map_err(|error| format!("bash: {error}"))?;
        let server = Server { child, log };
        // Until it says that it is there, at most half a minute.
        for _ in 0..300 {
            sleep(Duration::from_millis(100));
            if !server.said().is_empty() {
                break;
            }
        }
        sleep(Duration::from_secs(2));
        Ok(server)
    }

    fn said(&self) -> String {
        let mut text = String::new();
        let _ = File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text));
        text
    }

    /// What it said; it must be there still.
    fn end(mut self) -> Result<String, String> {
        let over = self.child.try_wait().map_err(|error| error.to_string())?;
        let said = self.said();
        match over {
            None if !said.is_empty() => Ok(said),
            None => Err("the server has said nothing".to_string()),
            Some(status) => Err(format!("the server ended with {status}: {said}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "INT", &id]).status();
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does `printed` have the lines of `shown`, in their order, whatever blanks are between words?
fn has_lines(printed: &str, shown: &str) -> Result<(), String> {
    let steady = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = printed.lines().map(steady);
    for line in shown.lines().map(steady).filter(|line| !line.is_empty() && *line != "...") {
        if !lines.any(|one| one == line) {
            return Err(format!("the page shows\n{line}\nand the command printed\n{printed}"));
        }
    }
    Ok(())
}
