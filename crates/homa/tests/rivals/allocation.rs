//! Law 8: after warm-up no rival allocates per step.
//!
//! A machine talks to itself over a line kept in arrays, so the driver allocates nothing either.
//! Messages of all sizes come in one cycle, again and again; one packet in 61 is lost, so that
//! repair is measured too.

use crate::each_transport;
use cavy_core::Stream;
use cavy_core::laws::packet::{Load, Steady};

const SIZES: [u32; 6] = [100, 1_460, 9_000, 40_000, 3_000, 120_000];

fn length_bytes(n: u64, _: &mut Stream) -> u32 {
    SIZES[n as usize % SIZES.len()]
}

#[test]
fn law_8_no_step_allocates_after_warm_up() {
    each_transport!(|name, _queue, make| {
        let mut hosts = Steady::new(vec![make()]);
        let load = Load { open: 10, asks: false, length_bytes, packets_per_us: 1, lost_every: 61 };
        (0..400_000).for_each(|_| hosts.step(&load));
        let before = hosts.delivered;
        let counted = allocation_counter::measure(|| (0..100_000).for_each(|_| hosts.step(&load)));
        let delivered = hosts.delivered - before;
        assert!(delivered > 300, "{name}: {delivered} messages in the measured stretch");
        assert_eq!(hosts.failed, 0, "{name}");
        assert_eq!(counted.count_total, 0, "{name}: {} bytes", counted.bytes_total);
    });
}
