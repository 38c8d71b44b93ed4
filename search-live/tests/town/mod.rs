//! A cluster of processes for a test.

use cavy_search_live::cluster::Cluster;
use cavy_search_live::cluster::local::Local;
use cavy_search_live::study::client::Client;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cavy-search");
/// How long something may take that ends.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster in a folder of its own.
pub struct Town {
    pub local: Local,
    pub client: Client,
    folder: std::path::PathBuf,
}

impl Town {
    pub fn new(name: &str, servers: u32, front_ends: u32, p: u32) -> Town {
        Town::with(name, servers, front_ends, p, |_| {})
    }

    /// With a description that is changed so.
    pub fn with(
        name: &str,
        servers: u32,
        front_ends: u32,
        p: u32,
        own: impl FnOnce(&mut Cluster),
    ) -> Town {
        let folder = std::env::temp_dir().join(format!("cavy-test-{name}-{}", std::process::id()));
        let change = |cluster: &mut Cluster| {
            cluster.p = p;
            cluster.synced = false;
            own(cluster);
        };
        let many = (servers, front_ends);
        let mut local =
            Local::new(Path::new(PROGRAM), &folder, many, None, change).expect("a cluster");
        local.start_all().expect("processes");
        let client = Client::new(local.cluster.front_ends[0].http, PATIENCE);
        let mut town = Town { local, client, folder };
        town.until_green();
        town
    }

    pub fn until_green(&mut self) {
        let until = Instant::now() + 2 * PATIENCE;
        loop {
            self.local.look();
            match self.client.ask("GET", "/_cluster/health?wait_for_status=green", "") {
                Ok((200, answer)) if answer["status"] == "green" => return,
                answer => assert!(Instant::now() < until, "{answer:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[allow(dead_code, reason = "one program of tests asks in its own way")]
    pub fn ask(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.ask(method, path, &body).expect("an answer")
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        self.local.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
