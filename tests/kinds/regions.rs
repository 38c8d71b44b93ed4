//! Plans for regions: every protocol runs what they say.

use cavy_kinds::regions::{ProtocolPlan, RegionsPlan};
use cavy_study::plan::Files;
use cavy_study::point::Manner;
use cavy_study::subject::Subject;

/// One replication of each protocol, twice: everything is answered, and runs repeat.
#[test]
fn every_protocol_runs_tpcc() {
    let protocols = [
        "protocol = \"dast\"",
        "protocol = \"dast\"\nmode = \"artifact\"",
        "protocol = \"dast\"\ncommit_via_steward = false",
        "protocol = \"two_phase\"",
        "protocol = \"janus\"",
        "protocol = \"janus\"\nfake_inquire_ms = 100",
        "protocol = \"tapir\"",
        "protocol = \"tapir\"\nartifact = true",
        "protocol = \"slog\"",
        "protocol = \"slog\"\norderer = \"first_region\"\nartifact = true",
    ];
    let workloads =
        ["name = \"tpcc\"", "name = \"payment\"\ncrt_ratio = 0.5", "name = \"tpca\"\nskew = 0.9"];
    for workload in workloads {
        for protocol in protocols {
            let own: ProtocolPlan = toml::from_str(protocol).expect(protocol);
            let plan = RegionsPlan {
                workload: toml::from_str(workload).expect(workload),
                ..toml::from_str(&format!(
                    "regions = 3\nshards_per_region = 1\nclients_per_shard = 3\n\
                     [workload]\nname = \"tpcc\"\n[[protocols]]\n{protocol}\n\
                     [run]\nwarmup_ms = 100\nduration_ms = 500\n"
                ))
                .expect("a plan")
            };
            assert_eq!(plan.protocols, [own]);
            let scenario = plan.scenario(&Files::Carried(&[])).expect("a scenario");
            let manner = Manner { twice: true, ..Manner::default() };
            let run = RegionsPlan::replicate(&scenario, 3, 0, &manner).expect(protocol);
            let summed = plan.summarize(&scenario, &[run]);
            assert_eq!(summed.data.unanswered, 0, "{protocol}, {workload}: {}", summed.note);
            assert!(summed.work > 15, "{protocol}, {workload}: {} were asked", summed.work);
        }
    }
}
