//! Digests of short runs of the packet world, pinned: Homa in its variants and every rival, one-way
//! and asked, with losses. Whoever changes the packet plane sees here whether a packet of theirs
//! moved by a picosecond.

use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::point::Manner;
use cavy_study::runner::{Runner, Silent};
use cavy_study::store::Store;
use std::sync::atomic::AtomicBool;

const ONE_WAY: &str = "[traffic]\npattern = \"all_to_all\"\n[[transports]]\ntransport = \
                       \"homa\"\n[[transports]]\ntransport = \"homa\"\nlabel = \"rc\"\nvariant = \
                       \"rc\"\n[[transports]]\ntransport = \"homa\"\nlabel = \"cavy\"\nvariant = \
                       \"cavy\"\n[[transports]]\ntransport = \"basic\"\n[[transports]]\ntransport \
                       = \"fifo\"\n[[transports]]\ntransport = \"srpt\"\n[[transports]]\ntransport \
                       = \"pfabric\"\n[[transports]]\ntransport = \
                       \"phost\"\n[[transports]]\ntransport = \"dctcp\"\n[[transports]]\ntransport \
                       = \"pias\"\n[[transports]]\ntransport = \"ndp\"\n";
const ASKED: &str = "[traffic]\npattern = \"rpc\"\nclients = 2\nservers = \
                     4\n[[transports]]\ntransport = \"homa\"\n[[transports]]\ntransport = \
                     \"homa\"\nlabel = \"lx\"\nvariant = \"lx\"\n[[transports]]\ntransport = \
                     \"dctcp\"\n[[transports]]\ntransport = \"ndp\"\n[[transports]]\ntransport = \
                     \"pfabric\"\n";

/// Label and digest of each point of a short plan on a star of six.
fn digests(network: &str, rest: &str) -> Vec<(String, String)> {
    let text = format!(
        "kind = \"network\"\ntitle = \"t\"\n[network]\ntopology = \"star\"\nhosts = 6\n{network}\n\
         [messages]\nworkload = \"W3\"\nmax_bytes = 100_000\n{rest}\n\
         [run]\nmessages = 600\nreplications = 1\nown_best = false\nseed = 7\n"
    );
    let text =
        Text { text: &text, name: "pinned", files: &Files::NONE, overrides: &[], quick: false };
    let loaded = load(&text).expect("a plan");
    let (store, stop) = (Store::in_memory(), AtomicBool::new(false));
    let manner = Manner::default();
    let runner = Runner { store: &store, progress: &Silent, stop: &stop, manner, version: "test" };
    let made: cavy_kinds::network::NetExperiment = runner.experiment(&loaded).expect("results");
    made.results.iter().map(|result| (result.label.clone(), result.digest.clone())).collect()
}

fn expect(found: &[(String, String)], pinned: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(found, pinned);
}

#[test]
fn one_way_messages_keep_their_digests() {
    expect(
        &digests("", ONE_WAY),
        &[
            ("Homa", "279aaf90d9cfeee0"),
            ("rc", "1e4a34e1059a1ad8"),
            ("cavy", "7e67c74da6da8275"),
            ("Basic", "1a90b1a9b4662d29"),
            ("FIFO", "f9422da210138555"),
            ("SRPT sender", "b98a8a03b65da85c"),
            ("pFabric", "eb37d397723d040c"),
            ("pHost", "6560c1d3ff32ac77"),
            ("DCTCP", "9253653f22d6056e"),
            ("PIAS", "dce292fc44fbcef0"),
            ("NDP", "dabffc268c887c69"),
        ],
    );
}

#[test]
fn questions_with_losses_keep_their_digests() {
    expect(
        &digests("loss_ratio = 0.001", ASKED),
        &[
            ("Homa", "216a2ad60a939cdd"),
            ("lx", "0497838cede4cd7e"),
            ("DCTCP", "b0f869f418554d4d"),
            ("NDP", "2e938c5bf36d3505"),
            ("pFabric", "a49a17567d99e2ec"),
        ],
    );
}
