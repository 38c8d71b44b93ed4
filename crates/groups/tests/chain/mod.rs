//! Services of the example `chain`, which burn CPU time for each request.

use std::path::PathBuf;
use std::process::{Child, Command};

/// A service that ends with the test.
pub struct Service(pub Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An example of this package, built.
pub fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    own.parent().and_then(|deps| deps.parent()).expect("a folder").join("examples").join(name)
}

/// Starts one: its port, microseconds a request, and the port of the next one if there is one.
pub fn chain(words: &[u32]) -> Service {
    let mut command = Command::new(example("chain"));
    command.args(words.iter().map(u32::to_string));
    Service(command.spawn().expect("cargo builds examples before tests"))
}

/// A port at which nobody listens.
pub fn free_port() -> u32 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    u32::from(socket.local_addr().expect("an address").port())
}
