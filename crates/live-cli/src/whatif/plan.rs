//! The lab's plan of what was measured: the same services on one machine, simulated.

use cavy_core::Span;
use cavy_groups::rank::Ranking;
use std::fmt::Write as _;

/// How clients were.
pub struct Load {
    /// Clients, each with one request under way.
    pub clients: u32,
    /// Requests that arrive by themselves, a second.
    pub rate_per_s: Option<f64>,
    /// How long they think on average.
    pub think: Option<Span>,
}

/// A plan for `cavy run`. Services are in the order of `names`; those that were not measured as
/// targets have no CPU time, and are refused with their name.
///
/// # Errors
/// A sentence, when CPU time of a service is not known.
pub fn of(
    ranking: &Ranking,
    names: &[String],
    load: &Load,
    cores: usize,
) -> Result<String, String> {
    let us = |name: &String| {
        let row = ranking.rows.iter().find(|row| row.service == *name);
        row.map(|row| row.cpu_us_per_request).filter(|us| *us > 0.0).ok_or(format!(
            "CPU time of service {name} was not measured: leave --target out, or drive it"
        ))
    };
    let mut out = String::from(
        "# Written by `cavy live whatif --plan`. CPU time of each service for a request of a \
         client is\n# measured, that of the clients themselves included. Who calls whom is not: \
         here each calls the next,\n# once. Where all share their cores that makes no difference \
         to throughput.\nkind = \"services\"\ntitle = \"What was measured\"\n\
         summary = \"Services of a running application, simulated with the CPU time that they \
         took.\"\nbaseline = \"no change\"\n",
    );
    let _ = writeln!(out, "hosts = [{{ name = \"machine\", cores = {cores} }}]\n");
    out.push_str("[clients]\ncall = \"clients\"\n");
    let _ = match load.rate_per_s {
        Some(rate) => writeln!(out, "rate_per_s = {rate:?}"),
        None => writeln!(out, "population = {}", load.clients),
    };
    if let Some(think) = load.think {
        let mean_us = think.as_us();
        let _ = writeln!(out, "think = {{ dist = \"exponential\", mean_us = {mean_us:?} }}");
    }
    let mut tiers = vec![("clients".to_string(), ranking.own_us_per_request.max(0.1))];
    for name in names {
        // The clients' own name is taken.
        let shown = if name == "clients" { "clients-service".to_string() } else { name.clone() };
        tiers.push((shown, us(name)?));
    }
    for (at, (name, us)) in tiers.iter().enumerate() {
        let next = tiers.get(at + 1).map(|(next, _)| format!(", {{ call = \"{next}\" }}"));
        let _ = write!(
            out,
            "\n[[services]]\nname = \"{name}\"\nhost = \"machine\"\nsteps = [{{ cpu = {{ dist = \
             \"exponential\", mean_us = {us:.1} }} }}{}]\n",
            next.unwrap_or_default()
        );
    }
    let first = ranking.rows.first().map_or(&tiers[0].0, |row| &row.service);
    let _ = write!(
        out,
        "\n[whatif]\nservice = \"{first}\"\nfaster_ratio = {:?}\n\n[[methods]]\nmethod = \
         \"no_change\"\n\n[[methods]]\nmethod = \"utilisation\"\n\n[[methods]]\nmethod = \
         \"governor\"\nmode = \"delivered\"\npause_us = 500\n\n[run]\nrequests = 20000\n\
         replications = 3\n",
        ranking.faster_percent / 100.0
    );
    Ok(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cavy_groups::machine::Weather;
    use cavy_groups::rank::Row;
    use cavy_kinds::services::ServicesPlan;
    use cavy_study::plan::Files;
    use cavy_study::plan::read::{Text, load};

    pub(in super::super) fn ranking() -> Ranking {
        let row = |service: &str, cpu_us_per_request: f64| Row {
            service: service.to_string(),
            gain_percent: None,
            gain_between_percent: None,
            predicted_per_s: None,
            law_percent: 0.0,
            cpu_us_per_request,
            paused_ratio: 0.1,
            pause_ms: 2.0,
            delivered_percent: 25.0,
            pause_cost_percent: None,
            predicted_p50_ms: None,
            predicted_p99_ms: None,
            wall_p50_ms: None,
            wall_p99_ms: None,
            rounds: 2,
            weather: Weather::default(),
            doubts: Vec::new(),
        };
        Ranking {
            faster_percent: 25.0,
            baseline_per_s: None,
            arriving_open: false,
            baseline_p50_ms: None,
            baseline_p99_ms: None,
            own_us_per_request: 30.0,
            busy_ratio: 0.9,
            rows: vec![row("db", 900.0), row("web", 250.0)],
            failed: 0,
            complaint: None,
            threads_max: 8,
            pause_min_ms: 2.0,
            overdue_ms: 0.0,
            interrupted: false,
        }
    }

    #[test]
    fn the_lab_reads_what_is_written() {
        let names = ["web".to_string(), "db".to_string()];
        let thought = Some(Span::from_ms(20));
        for (rate_per_s, think) in [(None, None), (None, thought), (Some(120.5), None)] {
            let demand = Load { clients: 64, rate_per_s, think };
            let plan = of(&ranking(), &names, &demand, 2).expect("all are measured");
            assert!(plan.contains("service = \"db\"\nfaster_ratio = 0.25"), "{plan}");
            let text = Text {
                text: &plan,
                name: "plan",
                files: &Files::Carried(&[]),
                overrides: &[],
                quick: false,
            };
            let read = load::<ServicesPlan>(&text);
            assert!(read.is_ok(), "{plan}\n{:?}", read.err().map(|error| error.to_string()));
        }
        let mut without = ranking();
        without.rows.pop();
        let load = Load { clients: 1, rate_per_s: None, think: None };
        assert!(of(&without, &names, &load, 2).expect_err("web").contains("service web"));
    }
}
