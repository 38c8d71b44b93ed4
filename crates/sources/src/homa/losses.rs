//! Losses and finite buffers: experiments E9 and E10 of [homa 5.12].

use super::measure::{id, known, not_run, p99, ratio, value, with, words};
use super::show::{self, TransportCurve};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Scale, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Random losses.
pub static LOSS: Study<NetworkPlan> = Study {
    about: About {
        id: "loss",
        title: "Lost packets: repair after milliseconds or after round trips",
        plan: include_str!("plans/loss.toml"),
        files: &[],
        shows: "Slowdown of questions and answers when a share of all packets is lost, with the \
                source's timers of milliseconds and with repair after round trips, which is ours. \
                W3 at half load, and W3 and W4 at 80 % as variants.",
        claimed: "The source repairs after 6 ms; the specification proposes five round trips.",
    },
    measure: measure_loss,
    found: found_loss,
    panels: panels_loss,
    tables,
};

/// Switches whose ports share a memory.
pub static BUFFERS: Study<NetworkPlan> = Study {
    about: About {
        id: "buffers",
        title: "Finite shared buffers",
        plan: include_str!("plans/buffers.toml"),
        files: &[],
        shows: "W4 at 80 % load when the ports of each switch share so much memory by dynamic \
                thresholds.",
        claimed: "Critics say that shallow buffers drop Homa's blind bytes; its author says that \
                  switches share memory.",
    },
    measure: measure_buffers,
    found: found_buffers,
    panels: panels_buffers,
    tables,
};

const LOSS_KEY: &str = "network.loss_ratio";
const BUFFER_KEY: &str = "network.buffer.shared_bytes";

fn measure_loss(e: &NetExperiment) -> Vec<Measured> {
    let at = |label, ratio: &str| with(e, BASE, label, LOSS_KEY, ratio);
    let short = |label, ratio| at(label, ratio).map(|result: &NetResult| &result.short);
    let all = |label, ratio| at(label, ratio).map(|result: &NetResult| &result.overall);
    let again = match at("round trips", "0.01") {
        Some(result) => {
            let share = result.retransmitted_ratio();
            value(id("loss", "sent_again"), share, result.work, String::new())
        }
        None => not_run(id("loss", "sent_again")),
    };
    let of_w4 = |label, ratio: &str| with(e, "w4", label, LOSS_KEY, ratio);
    let short_w4 = |label, ratio| of_w4(label, ratio).map(|result: &NetResult| &result.short);
    let short_w3 =
        |label, lost: &str| with(e, "w3", label, LOSS_KEY, lost).map(|r: &NetResult| &r.short);
    let needless = match of_w4("round trips", "0.0") {
        Some(result) => {
            value(id("loss", "needless"), result.retransmitted_ratio(), result.work, String::new())
        }
        None => not_run(id("loss", "needless")),
    };
    vec![
        ratio(id("loss", "idle"), short_w4("round trips", "0.0"), short_w4("ticks", "0.0"), p99),
        ratio(
            id("loss", "near"),
            short_w4("round trips", "0.001"),
            short_w4("round trips", "0.0"),
            p99,
        ),
        ratio(id("loss", "idle_w3"), short_w3("round trips", "0.0"), short_w3("ticks", "0.0"), p99),
        ratio(
            id("loss", "near_w3"),
            short_w3("round trips", "0.001"),
            short_w3("round trips", "0.0"),
            p99,
        ),
        needless,
        ratio(id("loss", "gain"), all("ticks", "0.01"), all("round trips", "0.01"), p99),
        ratio(id("loss", "cost"), short("round trips", "0.0001"), short("ticks", "0.0001"), p99),
        again,
    ]
}

fn found_loss(e: &NetExperiment) -> String {
    let one = |result: &NetResult| {
        let lost = result.settings.get(LOSS_KEY)?;
        let tail = words(known(Some(&result.short), p99));
        let again = result.retransmitted_ratio() * 100.0;
        let which = match result.variant.as_str() {
            BASE => "W3 at 50 %",
            "w3" => "W3 at 80 %",
            _ => "W4 at 80 %",
        };
        Some(format!("{which}, {} at {lost} lost: {tail}, {again:.2} % sent again", result.label))
    };
    let all: Vec<String> = e.results.iter().filter_map(one).collect();
    format!("99th percentile slowdown of the short half: {}.", all.join("; "))
}

fn panels_loss(e: &NetExperiment) -> Vec<Panel> {
    let curve = |id, title, of| TransportCurve {
        id,
        title,
        key: LOSS_KEY,
        x: ("share of packets lost", Scale::Log),
        y: ("slowdown", Scale::Log),
        of,
    };
    let p99_short = curve("p99", "P99 slowdown of the short half", |r| known(Some(&r.short), p99));
    let p999 = curve("p999", "P99.9 slowdown of the short half", |result| {
        Some(result.short.p999_slowdown.as_ref()?.supported()?.value)
    });
    vec![show::curve(e, BASE, &p99_short), show::curve(e, BASE, &p999)]
}

/// Where the smallest buffer tried costs the short half less than a tenth against the largest.
fn measure_buffers(e: &NetExperiment) -> Vec<Measured> {
    let at =
        |label, bytes: &str| with(e, BASE, label, BUFFER_KEY, bytes).map(|r: &NetResult| &r.short);
    vec![
        ratio(id("buffers", "ticks_400kb"), at("ticks", "400000"), at("ticks", "3000000"), p99),
        ratio(
            id("buffers", "round_trips_400kb"),
            at("round trips", "400000"),
            at("round trips", "3000000"),
            p99,
        ),
    ]
}

fn found_buffers(e: &NetExperiment) -> String {
    let one = |result: &NetResult| {
        let bytes = result.setting(BUFFER_KEY)?;
        let dropped = result.packets.dropped as f64 * 100.0 / result.packets.sent.max(1) as f64;
        let tail = words(known(Some(&result.short), p99));
        let label = &result.label;
        Some(format!("{:.0} kB, {label}: {dropped:.3} % dropped, short tail {tail}", bytes / 1e3))
    };
    let all: Vec<String> = e.results.iter().filter_map(one).collect();
    format!("{}.", all.join("; "))
}

fn panels_buffers(e: &NetExperiment) -> Vec<Panel> {
    let curve = |id, title, y, of| TransportCurve {
        id,
        title,
        key: BUFFER_KEY,
        x: ("memory of a switch, bytes", Scale::Log),
        y,
        of,
    };
    let tail = curve("p99", "P99 slowdown of the short half", ("slowdown", Scale::Log), |r| {
        known(Some(&r.short), p99)
    });
    let dropped = curve("dropped", "Packets dropped", ("%", Scale::Linear), |result| {
        Some(result.packets.dropped as f64 * 100.0 / result.packets.sent.max(1) as f64)
    });
    vec![show::curve(e, BASE, &tail), show::curve(e, BASE, &dropped)]
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    vec![show::points(e)]
}
