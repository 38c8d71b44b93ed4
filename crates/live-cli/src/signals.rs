//! Ctrl-C, and requests to terminate. A program listens once.

use crate::faults::{FAILED, Fault, INTERRUPTED};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// What a second one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// Ends the program at once.
    Ends,
    /// Nothing: there is something to put back.
    Waits,
}

/// Becomes true at the first.
pub fn stop(second: Second) -> Result<Arc<AtomicBool>, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    set(&stop, second)?;
    Ok(stop)
}

/// `stop` becomes true at the first.
pub fn set(stop: &Arc<AtomicBool>, second: Second) -> Result<(), Fault> {
    let stop = Arc::clone(stop);
    listen(move || {
        if stop.swap(true, Ordering::Relaxed) && second == Second::Ends {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
}

/// Is told of each.
pub fn told(second: Second) -> Result<Receiver<()>, Fault> {
    let (to, told) = channel();
    listen(move || {
        // Nobody listens after the first.
        if to.send(()).is_err() && second == Second::Ends {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })?;
    Ok(told)
}

fn listen(handler: impl FnMut() + 'static + Send) -> Result<(), Fault> {
    ctrlc::set_handler(handler)
        .map_err(|error| Fault::new(format!("cannot listen for Ctrl-C: {error}")).code(FAILED))
}
