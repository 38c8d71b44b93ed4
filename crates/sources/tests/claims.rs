//! What figures measure, and what their claims are about. Nothing is run.

use cavy_kinds::coords::CoordsPlan;
use cavy_kinds::network::NetworkPlan;
use cavy_kinds::regions::RegionsPlan;
use cavy_kinds::search::SearchPlan;
use cavy_kinds::services::ServicesPlan;
use cavy_study::claim::{SECTIONS_MIN, Statement};
use cavy_study::plan::Loaded;
use cavy_study::registry::Registry;
use cavy_study::source::{Figure, Scale, Source};
use cavy_study::subject::Subject;
use std::any::Any;
use std::collections::BTreeSet;

/// Names of the claims of a figure.
fn claimed(statements: &[Statement], figure: &dyn Figure) -> BTreeSet<String> {
    let own = statements.iter().filter(|s| s.figure() == figure.about().id);
    own.map(|statement| statement.id.clone()).collect()
}

/// Names of the claims that it measures; `None` for kinds of which that cannot be told.
fn measured(figure: &dyn Figure, scale: Scale) -> Option<BTreeSet<String>> {
    let all = figure.measures(scale)?;
    let names: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(names.len(), all.len(), "{}: a claim is measured twice", figure.about().id);
    Some(names)
}

fn each(mut check: impl FnMut(&Source, &[Statement], &dyn Figure)) {
    // The two sources of which blank outcomes are known to have every part.
    let known = |source: &Source| ["persephone", "homa"].contains(&source.id);
    for source in cavy_sources::all().into_iter().filter(known) {
        let statements = source.statements();
        source.figures.iter().for_each(|figure| check(&source, &statements, *figure));
    }
}

/// What the command says measures a claim does: in full every claim has points that are run.
#[test]
fn full_plans_measure_every_claim() {
    each(|source, statements, figure| {
        let Some(full) = measured(figure, Scale::Full) else { return };
        let left: Vec<String> = claimed(statements, figure).difference(&full).cloned().collect();
        assert!(left.is_empty(), "{} {}: {left:?}", source.id, figure.about().id);
    });
}

/// A quick plan measures less than a full one, never something else.
#[test]
fn quick_plans_measure_a_part() {
    let mut quick = 0;
    each(|_, statements, figure| {
        let scales = measured(figure, Scale::Quick).zip(measured(figure, Scale::Full));
        let Some((quick_names, full)) = scales else { return };
        let claimed = claimed(statements, figure);
        let here: BTreeSet<String> = quick_names.intersection(&claimed).cloned().collect();
        let more: Vec<&String> = here.difference(&full).collect();
        assert!(more.is_empty(), "{}: {more:?}", figure.about().id);
        if here.is_empty() && !claimed.is_empty() {
            panic!("{}: the quick plan measures nothing", figure.about().id);
        }
        quick += here.len();
    });
    assert!(quick > 400, "{quick}");
}

#[test]
fn a_name_shared_by_a_system_and_a_figure_is_the_systems() {
    let registry = Registry { kinds: cavy_kinds::all(), sources: cavy_sources::all() };
    let ids = |name: &str| -> Vec<&str> {
        let chosen = registry.choose(&[name.to_string()]).expect("there is one");
        chosen.iter().map(|one| registry.sources[one.source].id).collect()
    };
    assert!(ids("incast").iter().all(|id| *id == "incast"));
    assert_eq!(ids("homa.incast"), ["homa"]);
    assert_eq!(ids("fig3"), ["persephone"]);
}

/// The fewest replications of a point of a plan of this kind.
fn replications<P: Subject>(plan: &dyn Any) -> Option<u32> {
    let loaded = plan.downcast_ref::<Loaded<P>>()?;
    loaded.points.iter().map(|one| one.replications).min()
}

/// What has no parts of its own to tell apart is run often enough for an interval. Hosts of a
/// network are such parts, except where one receives all; and so are stretches of one long run of a
/// server.
#[test]
fn claims_without_sections_of_their_own_have_replications_enough() {
    let mut seen = 0;
    for source in cavy_sources::all() {
        for figure in &source.figures {
            let id = figure.about().id;
            if source.id == "persephone" || source.id == "homa" && id != "incast" {
                continue;
            }
            for scale in [Scale::Quick, Scale::Full] {
                let plan = figure.plan(scale, 1).expect("a figure's plan");
                let plan = plan.as_any();
                let fewest = replications::<NetworkPlan>(plan)
                    .or_else(|| replications::<ServicesPlan>(plan))
                    .or_else(|| replications::<RegionsPlan>(plan))
                    .or_else(|| replications::<CoordsPlan>(plan))
                    .or_else(|| replications::<SearchPlan>(plan));
                seen += 1;
                let (system, enough) = (source.id, SECTIONS_MIN as u32);
                assert!(fewest.is_some_and(|n| n >= enough), "{system}.{id}: {fewest:?}");
            }
        }
    }
    assert!(seen > 100, "{seen} of five systems and one figure of another");
}
