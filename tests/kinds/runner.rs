//! The queue of points: what is run first, and what happens when somebody wants it to stop.

use cavy_kinds::network::NetworkPlan;
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Loaded, Text};
use cavy_study::point::{Manner, RunError};
use cavy_study::runner::{Progress, Runner, jobs};
use cavy_study::store::Store;
use rayon::ThreadPoolBuilder;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const PLAN: &str = "kind = \"network\"\ntitle = \"t\"\n[network]\ntopology = \"star\"\nhosts = \
                    4\n[messages]\nsizes = { dist = \"constant\", bytes = 2000 \
                    }\n[[transports]]\ntransport = \"fifo\"\n[sweep]\nload = [0.3, 0.7, 0.1, \
                    0.5]\n[run]\nduration_ms = 2\nown_best = false";

/// Keeps what each finished point was expected to cost, and wants to stop after some.
struct Watch<'a> {
    costs_s: Mutex<Vec<f64>>,
    stop_after: usize,
    stop: &'a AtomicBool,
}

impl Progress for Watch<'_> {
    fn done(&self, core_s: f64) {
        let mut costs_s = self.costs_s.lock().expect("no panic");
        costs_s.push(core_s);
        self.stop.store(costs_s.len() >= self.stop_after, Ordering::Relaxed);
    }
    fn doing(&self, _: &str) {}
}

fn run(threads: usize, stop_after: usize) -> (Result<usize, RunError>, Vec<f64>) {
    let text = Text { text: PLAN, name: "test", files: &Files::NONE, overrides: &[], quick: false };
    let loaded: Loaded<NetworkPlan> = load(&text).expect("a plan");
    let (store, stop) = (Store::in_memory(), AtomicBool::new(false));
    let watch = Watch { costs_s: Mutex::default(), stop_after, stop: &stop };
    let manner = Manner::default();
    let runner = Runner { store: &store, progress: &watch, stop: &stop, manner, version: "test" };
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    let outcome = pool.install(|| runner.run(&jobs(&loaded)));
    (outcome.map(|()| store.len()), watch.costs_s.into_inner().expect("no panic"))
}

#[test]
fn the_longest_points_are_run_first() {
    let (outcome, costs_s) = run(1, usize::MAX);
    assert_eq!(outcome.expect("results"), 4);
    assert!(costs_s.len() == 4 && costs_s.is_sorted_by(|a, b| a > b), "{costs_s:?}");
}

#[test]
fn all_points_are_run_once_on_any_number_of_cores() {
    for threads in [2, 3, 8] {
        let (outcome, costs_s) = run(threads, usize::MAX);
        assert_eq!((outcome.expect("results"), costs_s.len()), (4, 4), "{threads} cores");
    }
}

#[test]
fn who_is_told_to_stop_says_how_far_it_came() {
    let (outcome, costs_s) = run(1, 2);
    assert_eq!(costs_s.len(), 2);
    let Err(RunError::Interrupted { done, total }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((done, total), (2, 4));
}

/// What was built to check a plan is what is run: a file that it names is read once.
#[test]
fn a_plan_is_built_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cdf = folder.path().join("sizes.csv");
    std::fs::write(&cdf, "bytes,cumulative\n2000,1\n").expect("a file");
    let text = PLAN.replace("sizes = { dist = \"constant\", bytes = 2000 }", "cdf = \"sizes.csv\"");
    let text = text.replace("[0.3, 0.7, 0.1, 0.5]", "[0.3]");
    let files = Files::beside(&folder.path().join("plan.toml"));
    let text = Text { text: &text, name: "test", files: &files, overrides: &[], quick: false };
    let loaded: Loaded<NetworkPlan> = load(&text).expect("a plan");
    std::fs::remove_file(&cdf).expect("it is there");
    let (store, stop) = (Store::in_memory(), AtomicBool::new(false));
    let (progress, manner) = (&cavy_study::runner::Silent, Manner::default());
    let runner = Runner { store: &store, progress, stop: &stop, manner, version: "test" };
    assert_eq!(runner.experiment(&loaded).expect("results").results.len(), 1);
    // Taken is taken: another run reads it again, and says what is wrong.
    let again = cavy_study::point::run(&loaded.points[0], &files, &manner);
    let said = again.expect_err("the file is gone").to_string();
    assert!(said.contains("sizes.csv"), "{said}");
    assert!(loaded.points[0].effort(&files).core_s > 0.0);
}
