//! Clients that append to lists and read them, and what the checker says of their history.

use super::resp::{Client, Reply};
use cavy_check::{Model, Options, judge, read};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lists that are appended to and read, four in each region.
const KEYS: u64 = 8;

/// What was answered, and how long it took.
#[derive(Clone, Copy)]
pub struct Answer {
    /// Of its node, if it touches no other one.
    pub region: Option<u64>,
    pub asked: Instant,
    pub took: Duration,
}

/// The history of clients that run until they are told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<Mutex<Vec<Answer>>>,
    lines: Arc<Mutex<String>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
}

fn key(number: u64) -> String {
    format!("{{r{}}}:{number}", number % 2)
}

/// Keeps by how much a thread that sleeps for a millisecond is late, where that is much.
fn watch_sleep(
    stop: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let millisecond = Duration::from_millis(1);
        while !stop.load(Relaxed) {
            let at = Instant::now();
            std::thread::sleep(millisecond);
            let by = at.elapsed() - millisecond;
            if by > millisecond {
                late.lock().unwrap().push((at, by));
            }
        }
    })
}

impl Load {
    /// `clients` clients, spread over replicas, of which it says their ports and the numbers of
    /// their regions; each turns to the next one when its node is gone.
    pub fn start(replicas: Vec<(u16, u64)>, clients: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let lines = Arc::new(Mutex::new(String::new()));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let start = |client: u64| {
            let (stop, lines, replicas) = (stop.clone(), lines.clone(), replicas.clone());
            let answers = answers.clone();
            std::thread::spawn(move || {
                let spread = (client as usize - 1) * replicas.len() / clients as usize;
                let mut at = spread + replicas.len() - 1;
                let mut connection = None;
                let mut draws = client * 7_919 + 1;
                let mut draw = |n: u64| {
                    draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (draws >> 33) % n
                };
                let mut number = 0;
                while !stop.load(Relaxed) {
                    let (_, own) = replicas[at % replicas.len()];
                    let Some(talk) = connection.as_mut() else {
                        at += 1;
                        connection = Client::connect(replicas[at % replicas.len()].0).ok();
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    };
                    number += 1;
                    // Nine of ten stay within one region, and one of six is then not the node's.
                    let home = if draw(6) == 0 { 1 - own } else { own };
                    let across = draw(10) == 0;
                    let first = draw(KEYS / 2) * 2 + home;
                    let second = if across { (first + 1) % KEYS } else { (first + 2) % KEYS };
                    let value = client * 1_000_000 + number;
                    let asked = Instant::now();
                    let invoke = asked.duration_since(began).as_nanos();
                    let lines_of = [
                        format!("RPUSH {} {value}", key(first)),
                        format!("LRANGE {} 0 -1", key(second)),
                    ];
                    let done = talk.exec(&lines_of);
                    let took = asked.elapsed();
                    let complete = invoke + took.as_nanos();
                    let mut line = String::new();
                    let mut regions = vec![first % 2, second % 2];
                    regions.dedup();
                    let head = format!(
                        "{{\"txn\":\"{client}:{number}\",\"client\":{client},\
                         \"regions\":{regions:?},\"invoke_ns\":{invoke},"
                    );
                    let append = format!("[\"append\",\"{}\",{value}]", key(first));
                    match done {
                        Ok(Reply::List(replies)) => {
                            let Some(Reply::List(items)) = replies.get(1) else {
                                panic!("{replies:?}")
                            };
                            let items: Vec<&str> = items
                                .iter()
                                .map(|item| match item {
                                    Reply::Text(text) => text.as_str(),
                                    other => panic!("{other:?}"),
                                })
                                .collect();
                            let read = format!("[\"r\",\"{}\",[{}]]", key(second), items.join(","));
                            let _ = writeln!(
                                line,
                                "{head}\"complete_ns\":{complete},\"ops\":[{append},{read}]}}"
                            );
                            let region = (regions == [own]).then_some(own);
                            answers.lock().unwrap().push(Answer { region, asked, took });
                        }
                        other => {
                            // Nobody knows; the node is gone, or says that it does not know.
                            let _ = writeln!(
                                line,
                                "{head}\"outcome\":\"unknown\",\"ops\":[{append}]}}"
                            );
                            if other.is_err() {
                                connection = None;
                            }
                        }
                    }
                    lines.lock().unwrap().push_str(&line);
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let mut threads: Vec<_> = (1..=clients).map(start).collect();
        let late = Arc::new(Mutex::new(Vec::new()));
        threads.push(watch_sleep(stop.clone(), late.clone()));
        Load { stop, answers, lines, threads, late }
    }

    fn answered(&self) -> usize {
        self.answers.lock().unwrap().len()
    }

    /// Waits until so many more are answered.
    pub fn more(&self, many: usize) {
        let (began, before) = (Instant::now(), self.answered());
        while self.answered() < before + many {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is answered any more");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How late a thread that sleeps for a millisecond was at most since `since`.
    pub fn lag(&self, since: Instant) -> Duration {
        let late = self.late.lock().unwrap();
        late.iter().filter(|(at, _)| *at >= since).map(|(_, by)| *by).max().unwrap_or_default()
    }

    /// The longest of the answers that were asked for since `since`, by what they touch: region r0
    /// or r1 from a node in it, or anything else. What nobody answered is not among them.
    pub fn longest(&self, since: Instant) -> [Duration; 3] {
        let mut longest = [Duration::ZERO; 3];
        for answer in self.answers.lock().unwrap().iter().filter(|a| a.asked >= since) {
            let of = &mut longest[answer.region.map_or(2, |region| region as usize)];
            *of = answer.took.max(*of);
        }
        longest
    }

    /// Ends it. Its history, and what `last` reads in the end.
    pub fn end(self, last: &mut Client) -> String {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        // What is there in the end: nothing that was answered may be missing.
        let mut text = self.lines.lock().unwrap().clone();
        let reads: Vec<String> = (0..KEYS).map(|k| format!("LRANGE {} 0 -1", key(k))).collect();
        // A node gives up after 10 s, and what was under way may take longer on a busy machine.
        let lists = (0..6).find_map(|_| match last.exec(&reads).unwrap() {
            Reply::List(lists) => Some(lists),
            other => {
                eprintln!("the last read: {other:?}");
                None
            }
        });
        let lists = lists.expect("a last read");
        let mut ops = Vec::new();
        for (place, list) in lists.iter().enumerate() {
            let Reply::List(items) = list else { panic!("{list:?}") };
            let items: Vec<String> = items
                .iter()
                .map(|item| if let Reply::Text(text) = item { text.clone() } else { panic!() })
                .collect();
            ops.push(format!("[\"r\",\"{}\",[{}]]", key(place as u64), items.join(",")));
        }
        let _ =
            writeln!(text, "{{\"txn\":\"last\",\"regions\":[0,1],\"ops\":[{}]}}", ops.join(","));
        text
    }
}

#[track_caller]
pub fn judged(history: &str) {
    if let Ok(path) = std::env::var("CAVY_HISTORY") {
        std::fs::write(path, history).unwrap();
    }
    let history = read::read(history.as_bytes(), None).expect("a history");
    let options = Options { model: Model::Serializable, shown: 5 };
    let verdict = judge(&history, options).expect("values are told apart");
    assert!(verdict.holds, "{:#?}", verdict.counts);
    // In real time within one region, all but transactions across regions are in order.
    eprintln!(
        "{} committed, {} unknown, {} operations: serializable; {:?}",
        verdict.committed, verdict.unknown, verdict.operations, verdict.counts
    );
}
