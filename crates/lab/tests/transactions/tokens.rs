//! Causal tokens `[dast 0.8, 8.2.8]`: the timestamp of an answer, handed on, orders what is asked
//! for with it after that answer, in any region. DAST promises no such order without them.

use crate::faults::{self, again, at, seeds, verdict};
use crate::town::{Mix, go, network, percentile};
use cavy_check::Model;
use cavy_core::{Purpose, Span, Stream};
use cavy_lab::wan::{Clock, Setup};
use cavy_txn::Layout;
use cavy_txn::dast::{Config, Mode};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;

fn config() -> Config {
    Config::new(Layout::new(3, 2), Mode::Precise)
}

/// Nobody thinks, so that a request is sent in the instant in which its token was the latest.
fn mix(with_tokens: u32) -> Mix {
    Mix { with_tokens, think: Span::ZERO, rows: 2, crt_percent: 30, ..Mix::all() }
}

/// Clocks of a region that agree, and are apart from those of others by up to 80 ms.
fn regions_apart(setup: &mut Setup, draws: &mut Stream) {
    let regions = config().layout.regions;
    let mut offset = || SECOND + draws.below(80) as i64 * MS;
    let offsets: Vec<i64> = (0..regions).map(|_| offset()).collect();
    let of = |site: usize| Clock { offset_ns: offsets[site], ..Clock::default() };
    setup.clocks = setup.nodes.iter().map(|site| of(usize::from(site.0))).collect();
}

fn judged(with_tokens: u32, seed: u64) -> Result<(), String> {
    let config = config();
    let mut setup = network(&config);
    setup.seed = seed;
    setup.check = true;
    setup.duration = Span::from_ms(2_000);
    regions_apart(&mut setup, &mut Stream::keyed(seed, 12, Purpose::Test));
    go(&config, &setup, mix(with_tokens)).judge_as(Model::StrictSerializable)
}

/// What everybody was told before is seen, by whoever asks, wherever. Without tokens it is not.
#[test]
fn clause_0_8_tokens_handed_to_everybody_make_regions_strict() {
    let mut broken_without = 0;
    for seed in seeds(4) {
        let test = "tokens::clause_0_8_tokens_handed_to_everybody";
        let with = verdict(|| judged(u32::MAX, seed));
        assert_eq!(with, Ok(()), "seed {seed}, again: {}", again(test, seed));
        broken_without += u64::from(judged(0, seed).is_err());
    }
    let all = seeds(4).end - seeds(4).start;
    println!("not strict without tokens: {broken_without} of {all} seeds");
    assert!(broken_without * 2 > all, "{broken_without} of {all} seeds");
}

/// And whatever fails. Clocks are not stepped: a token from a clock that is ahead by seconds has
/// its holder wait for as long.
#[test]
fn clause_0_8_tokens_hold_whatever_fails() {
    let config = config();
    for seed in seeds(12).filter(|seed| seed % 10 != 7) {
        let mut setup = network(&config);
        setup.seed = seed;
        setup.check = true;
        let what = faults::draw(&mut setup, config.layout, true, seed);
        let mix = Mix { rows: 6, ..mix(u32::MAX) };
        let judged = verdict(|| go(&config, &setup, mix).judge_as(Model::StrictSerializable));
        let test = "tokens::clause_0_8_tokens_hold_whatever_fails";
        assert_eq!(judged, Ok(()), "seed {seed}, {what}, again: {}", again(test, seed));
    }
}

/// Only the request with the token waits until its node's clock is past it.
#[test]
fn clause_0_8_a_token_holds_back_its_own_request_alone() {
    let config = config();
    let mut setup = network(&config);
    let behind = Span::from_ms(200);
    let ahead = |site: u16| if site == 0 { SECOND } else { SECOND + behind.as_ns() as i64 };
    let clock = |site: u16| Clock { offset_ns: ahead(site), ..Clock::default() };
    setup.clocks = setup.nodes.iter().map(|site| clock(site.0)).collect();
    // Nothing crosses regions, so no clock learns of another region's.
    let mix = Mix { with_tokens: 1, clients_per_shard: 4, ..Mix::single_shard() };
    let town = go(&config, &setup, mix);
    let of = |held: bool| {
        let asked = town.callers.answered.iter();
        // Client 0 names its transactions by 1; its region is the one that is behind.
        let region = |client: u32| town.layout.region_of(town.callers.home(client - 1)).0;
        let asked = asked.filter(|(id, _)| (id.client == 1) == held && region(id.client) == 0);
        let asked = asked.filter(|(_, (since, ..))| *since > at(300));
        let mut ms: Vec<f64> =
            asked.map(|(_, (since, until, _))| until.since(*since).as_us() / 1e3).collect();
        ms.sort_unstable_by(f64::total_cmp);
        ms
    };
    let (held, others) = (of(true), of(false));
    assert!(held.len() >= 8 && others.len() > 1_000, "{} and {}", held.len(), others.len());
    let (held, least) = (percentile(&held, 50.0), percentile(&held, 0.0));
    assert!(
        least > 190.0 && held < 230.0,
        "with a token {least} and more, {held} ms in the middle"
    );
    let (middle, most) = (percentile(&others, 50.0), percentile(&others, 100.0));
    assert!((10.0..13.0).contains(&middle) && most < 20.0, "others {middle}, at most {most} ms");
}
