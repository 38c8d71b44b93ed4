//! The stack of a command: opened by what was typed, told about, ended by Ctrl-C.

use super::typed::{Control, Port, Way};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_stack::{FLOOR, Options, Stack, live, timers_are_late};
use cavy_tcp::Congestion;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

impl Way {
    /// Opens the stack.
    pub fn open(&self) -> Result<Stack, Fault> {
        let late = timers_are_late();
        if let Some(floor) = self.floor.filter(|&floor| floor < late) {
            let (floor, late) = (floor.as_us(), late.as_us());
            let message = format!(
                "--floor {floor}us is shorter than the lateness of timers on this machine, \
                 {late:.0} us"
            );
            return Err(Fault::new(message).hint("raise it, or use a machine that is less busy"));
        }
        let mut options = Options::new(self.prefix);
        options.tcp = live(self.floor.unwrap_or(FLOOR.max(late)));
        options.tcp.congestion = match self.control {
            Control::Cubic => Congestion::Cubic,
            Control::Newreno => Congestion::NewReno,
        };
        (options.device, options.mtu) = (self.device.clone(), self.mtu);
        options.go_first = !self.ordinary;
        if self.port_bytes == Some(Port::Learned) {
            options.schedule_learned();
        }
        if let Some(Port::Octets(octets)) = self.port_bytes {
            if octets < 2 * (u32::from(self.mtu) + 14) {
                let message = format!("--port-bytes {octets} holds less than two full packets");
                return Err(Fault::new(message).hint("a port usually holds 32000 octets or more"));
            }
            options.schedule(octets);
        }
        Stack::open(options).map_err(|error| {
            let hint = "`cavy-live doctor` says what is missing, and its cure";
            Fault::new(error.to_string()).hint(error.hint()).hint(hint)
        })
    }

    /// Says where it stands.
    pub fn say(&self, stack: &Stack, what: &str, more: Value) -> Result<(), Fault> {
        let device = stack.device().unwrap_or_default();
        if self.json {
            let mut said = json!({ "does": what, "prefix": self.prefix.to_string() });
            said["device"] = device.into();
            said["first_address"] = stack.first_address().to_string().into();
            said["more"] = more;
            return terminal::print(&format!("{said}\n"));
        }
        let first = stack.first_address();
        terminal::print(&format!("tcp {what} {} on {device}, from {first}\n", self.prefix))?;
        terminal::talk("Ctrl-C ends");
        Ok(())
    }

    /// Says what it did.
    pub fn tell(&self, stack: &Stack) -> Result<(), Fault> {
        let metrics = stack.metrics();
        if self.json {
            let said = serde_json::to_string(&metrics);
            let said = said.map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
            return terminal::print(&format!("{said}\n"));
        }
        terminal::talk(&format!(
            "{} connections accepted, {} opened; {} octets in, {} out; {} segments, {} of them \
             again, {} timeouts of which {} were for nothing; timers {:.0} us late (p50)",
            metrics.accepted,
            metrics.opened,
            metrics.octets_in,
            metrics.octets_out,
            metrics.segments,
            metrics.retransmitted,
            metrics.timeouts,
            metrics.spurious,
            metrics.late.p50_us
        ));
        Ok(())
    }
}

/// Counts what goes on at a time.
#[derive(Clone)]
pub struct Places {
    taken: Arc<AtomicU32>,
    most: u32,
}

/// One of them, until it is dropped.
pub struct Place(Arc<AtomicU32>);

impl Places {
    pub fn new(most: u32) -> Places {
        Places { taken: Arc::new(AtomicU32::new(0)), most }
    }

    /// A place, if one is left.
    pub fn take(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread with a small stack; false when the system has no more threads.
pub fn apart(work: impl FnOnce() + Send + 'static) -> bool {
    const STACK_BYTES: usize = 192 << 10;
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).is_ok()
}
