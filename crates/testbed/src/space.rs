//! Running in a host: a socket belongs to the namespace of the thread that opened it, for good.

use crate::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd as _;

/// The namespace of a host.
#[derive(Debug)]
pub struct Space {
    name: String,
    file: File,
}

impl Space {
    /// The namespace of this name.
    ///
    /// # Errors
    /// When there is none, or it may not be opened.
    pub fn open(name: &str) -> Result<Space, Error> {
        let path = format!("/run/netns/{name}");
        let file = File::open(&path);
        let file = file.map_err(|error| Error::new(format!("cannot open {path}: {error}")))?;
        Ok(Space { name: name.to_string(), file })
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread in this namespace. Sockets that it opens, threads and processes that
    /// it starts stay there; whoever called stays where it was.
    ///
    /// # Errors
    /// When the system refuses, or `work` panics.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let enter = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| Error::new(format!("cannot enter {}: {error}", self.name)))
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| enter().map(|()| work()));
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(Error::new(format!("a thread in {} panicked", self.name))))
        })
    }
}
