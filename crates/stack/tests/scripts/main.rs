//! Every script of the machine against the kernel of this machine ([incast 7.5]): agreement of the
//! machine with its own scripts proves little, since the same hand wrote both.
//!
//! Without root it is skipped, and says so. What every test run plays are the scripts without
//! timers. All of them, as a table:
//! `CAVY_PATIENCE=70s cargo test -p cavy-stack --test scripts -- --nocapture`, which takes as long
//! as the longest script that may be played, and a few seconds. `CAVY_SCRIPT=name` plays those
//! whose name contains it.

mod habits;
mod icmp;
mod kernel;
mod wants;
#[path = "../../../tcp/tests/scripts/words.rs"]
mod words;

use cavy_core::Span;
use cavy_testbed::stalls::Stalls;
use cavy_testbed::{Plan, Testbed, obstacle};
use habits::HABITS;
use kernel::{Verdict, play};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use wants::outlook;
use words::Script;

/// Scripts that are played at a time, each in a namespace of its own: they mostly wait.
const AT_A_TIME: u16 = 12;
/// A busy machine may be late for a segment that is there.
const TRIES: u16 = 4;
/// How often what still differs is played by itself.
const ROUNDS_ALONE: usize = 3;
/// Those that take longer are tried once.
const RETRIED: Span = Span::from_ms(2_000);
/// Who waits for longer cannot tell who is late.
const STALLED: Span = Span::from_ms(20);
/// What every test run has time for: scripts whose only time is that of a handshake.
const QUICK: Span = Span::from_ms(150);

fn setting(name: &str) -> Option<String> {
    std::env::vars().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Plays all, and gives what became of each. Their peers are counted from `first` on.
fn played(testbed: &Testbed, scripts: &[Script], first: u16) -> Vec<Verdict> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for host in testbed.hosts() {
            let (next, found) = (&next, &found);
            scope.spawn(move || {
                let work = || loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(place) else { return };
                    // Each try has a peer of its own, so that nothing of the last is in its way.
                    let number = |tries: u16| first + place as u16 * TRIES + tries + 1;
                    let differs = |verdict: &Verdict| matches!(verdict, Verdict::Differs(_));
                    let mut verdict = play(script, number(0));
                    for tries in 1..TRIES {
                        if differs(&verdict) && outlook(script).takes < RETRIED {
                            verdict = play(script, number(tries));
                        }
                    }
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((place, verdict));
                };
                host.within(work).unwrap_or_else(|error| panic!("{error}"));
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, verdict)| verdict).collect()
}

/// Plays again, alone, what differs without a reason: beside others a thread may be late, and a
/// kernel gives only so many challenge acknowledgements in a second.
fn played_again(testbed: &Testbed, scripts: &[Script], found: &mut [Verdict]) {
    let mut first = scripts.len() as u16 * TRIES;
    for _ in 0..ROUNDS_ALONE {
        for (place, verdict) in found.iter_mut().enumerate() {
            let script = &scripts[place..=place];
            let known = HABITS.iter().any(|(name, _)| *name == script[0].name);
            if matches!(verdict, Verdict::Differs(_)) && !known {
                std::thread::sleep(std::time::Duration::from_millis(1_100));
                *verdict = played(testbed, script, first).remove(0);
                first += TRIES;
            }
        }
    }
}

fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

#[test]
fn the_kernel_is_asked_every_script_that_can_be_asked() {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        return println!("SKIPPED: {why}");
    }
    let patience = setting("CAVY_PATIENCE").map_or(QUICK, |text| {
        words::span(&text).unwrap_or_else(|why| panic!("CAVY_PATIENCE: {why}, such as 70s"))
    });
    let wanted = setting("CAVY_SCRIPT").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/scripts");
    let all = Script::all_in(&folder).into_iter().filter(|script| script.name.contains(&wanted));
    let (scripts, long): (Vec<_>, Vec<_>) =
        all.partition(|script| outlook(script).takes <= patience);
    let testbed = Testbed::up(Plan::slow(AT_A_TIME)).unwrap_or_else(|error| panic!("{error}"));
    let stalls = Stalls::watch();
    let mut found = played(&testbed, &scripts, 0);
    played_again(&testbed, &scripts, &mut found);
    let worst = stalls.worst();
    let (mut agree, mut uncertain, mut impossible, mut unexplained) = (0, 0, 0, Vec::new());
    for (script, verdict) in scripts.iter().zip(&found) {
        let habit = HABITS.iter().find(|(name, _)| *name == script.name).map(|(_, why)| *why);
        let name = &script.name;
        match (verdict, habit) {
            (Verdict::Agrees { uncompared }, _) => {
                agree += 1;
                let but = match uncompared {
                    0 => String::new(),
                    many => format!(", but for {many} that could not be compared"),
                };
                println!("| {name} | agrees{but} |");
            }
            (Verdict::Impossible(why), _) => {
                impossible += 1;
                println!("| {name} | cannot be asked: {why} |");
            }
            (Verdict::Differs(how), Some(why)) => {
                uncertain += 1;
                println!("| {name} | differs, {why} ({how}) |");
            }
            (Verdict::Differs(how), None) => unexplained.push(format!("{name}: {how}")),
        }
    }
    println!(
        "Linux {}: {} scripts played: {agree} agree, {uncertain} differ for a known reason, {} \
         for none, {impossible} cannot be asked; {} take longer than {patience} and were left out",
        release(),
        scripts.len(),
        unexplained.len(),
        long.len()
    );
    for line in &unexplained {
        println!("NOT EXPLAINED: {line}");
    }
    if !unexplained.is_empty() && worst > STALLED {
        return println!("SKIPPED: this machine is too busy: a thread waited {worst}");
    }
    // Habits change from one kernel to the next; those written down are of 6.18.
    if release().starts_with("6.18.") {
        assert!(unexplained.is_empty(), "{} scripts, see above", unexplained.len());
    }
    assert!(!wanted.is_empty() || agree >= scripts.len() / 2, "{agree} of {} agree", scripts.len());
}
