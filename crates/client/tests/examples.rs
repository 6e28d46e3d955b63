//! Runs the programs of `examples/` that use [`solera::ipa`], on clusters in this process.

#![expect(clippy::duplicate_mod, reason = "two programs have the module of visitors")]

use std::time::Duration;

use solera::ipa::{
    At, Causal, Consistency, Consistent, Inconsistent, Interval, LatencyBound, Rushed, Taken, level,
};
use solera::{Client, Error};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};
use solera_random::Random;

#[expect(dead_code, reason = "the test does not call main")]
#[path = "../../../examples/deliveries.rs"]
mod deliveries;
#[expect(dead_code, reason = "the test does not call main")]
#[path = "../../../examples/retwis.rs"]
mod retwis;
#[expect(dead_code, reason = "the test does not call main")]
#[path = "../../../examples/tickets.rs"]
mod tickets;

const STRONG: Consistency<level::Linearizable> = Consistency::new();
const CAUSAL: Consistency<level::Causal> = Consistency::new();

fn cluster(config: &str) -> Embedded {
    let spec = ClusterSpec::parse("config", config, Overrides::default()).unwrap();
    Embedded::with(spec).unwrap()
}

/// Returns sessions with all sites, for six visitors and the office.
async fn clients(cluster: &Embedded) -> Vec<Client> {
    let mut clients = Vec::new();
    for number in 0..7 {
        clients.push(cluster.client(number % 3).await.unwrap());
    }
    clients
}

#[tokio::test]
async fn tickets_sell_out_and_are_not_sold_twice() {
    use tickets::visitors::{Until, Way};
    let cluster = cluster(include_str!("../../../examples/tickets.toml"));
    let settings = tickets::Settings { events: 3, tickets: 2, until: Until::Acted(60) };
    for way in [Way::Strong, Way::Weak, Way::LatencyBound, Way::ErrorBound] {
        let report = tickets::run(way, &settings, clients(&cluster).await).await.unwrap();
        assert_eq!(report.broken, Vec::<String>::new(), "{way}");
        let tally = &report.tally;
        assert!(tally.counts["sold"] > 0 && tally.counts["sold out"] > 0, "{way}: {tally:?}");
        assert_eq!((tally.actions(), tally.failed), (360, 0), "{way}: {tally:?}");
        let shown = [tally.strong, tally.weak, tally.widths.len() as u64].map(|number| number > 0);
        match way {
            Way::Strong => assert_eq!(shown, [true, false, false]),
            Way::Weak => assert_eq!(shown, [false, true, false]),
            Way::LatencyBound => assert!(!shown[2], "{tally:?}"),
            Way::ErrorBound => assert_eq!(shown, [false, true, true]),
        }
    }
}

#[test]
fn sales_that_break_promises_are_reported() {
    let sale = |event, ticket: &str| (event, ticket.to_owned());
    let kept = [sale(0, "a"), sale(1, "b"), sale(1, "c")];
    assert_eq!(tickets::broken(&[1, 2], &kept), Vec::<String>::new());
    assert_eq!(tickets::broken(&[1, 1], &kept), ["event 1 has sold 2 of 1 tickets"]);
    let twice = [sale(0, "a"), sale(1, "a")];
    assert_eq!(tickets::broken(&[1, 2], &twice), ["ticket a was sold twice"]);
}

#[test]
fn pages_show_how_far_a_number_can_be_trusted() {
    use tickets::Show;
    let text = |shown: tickets::Shown| shown.text;
    assert_eq!(text(Consistent::new(12_i64).show()), "12 left");
    assert_eq!(text(Causal::new(12_i64).show()), "about 12 left");
    assert_eq!(text(Causal::new(0_i64).show()), "probably sold out");
    assert_eq!(text(Rushed::from(Consistent::new(0_i64)).show()), "sold out");
    assert_eq!(text(Rushed::from(Causal::new(7_i64)).show()), "about 7 left");
    let eventual: Inconsistent<i64> = At::new(7);
    assert_eq!(text(Rushed::from(eventual).show()), "perhaps 7 left");
    let interval = |min, max| text(Interval::new(min, max).unwrap().show());
    assert_eq!(interval(95, 100), "95 to 100 left");
    assert_eq!(interval(8, 12), "8 to 12 left: perhaps nearly sold out");
    assert_eq!(interval(8, 9), "8 to 9 left: hurry, nearly sold out!");
    assert_eq!(interval(0, 0), "sold out");
}

#[tokio::test]
async fn a_site_that_is_cut_off_cannot_tell_whether_tickets_are_left() {
    let cluster = cluster(include_str!("../../../examples/tickets.toml"));
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        here.push(cluster.client(0).await.unwrap());
        there.push(cluster.client(1).await.unwrap());
    }
    // Adds an event at site 1. Returns the service at site 2, which knows the event.
    macro_rules! added {
        ($tickets:expr, $listings:expr, $event:literal) => {{
            let (client, listings) = (here.pop().unwrap(), $listings);
            let mut here = tickets::Service { client, listings, tickets: $tickets };
            here.add_event("v", $event, "text", 2).await.unwrap();
            let past = here.client.token().await.unwrap();
            let mut client = there.pop().unwrap();
            client.attach(&past).await.unwrap();
            tickets::Service { client, listings, tickets: $tickets }
        }};
    }
    let mut strong = added!(tickets::Counted, STRONG, "s");
    let mut weak = added!(tickets::Pooled(CAUSAL), CAUSAL, "w");
    let mut bounded = added!(tickets::Bounded, CAUSAL, "b");
    for other in ["1", "3"] {
        cluster.inject(Fault::Cut { a: "2".into(), b: other.into() }).await.unwrap();
    }
    let (strong, weak, bounded) =
        tokio::join!(strong.purchase("s"), weak.purchase("w"), bounded.purchase("b"));
    for answer in [weak.unwrap(), bounded.unwrap()] {
        assert!(matches!(answer, Taken::CannotTell { .. }), "{answer:?}");
    }
    // Whether a strong transaction commits later may be unknown, too.
    match strong {
        Ok(Taken::CannotTell { .. }) | Err(Error::Unavailable { transaction: Some(_), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tweets_reach_followers_and_retweets_are_counted() {
    use retwis::visitors::{Until, Way};
    let cluster = cluster(include_str!("../../../examples/retwis.toml"));
    let settings = retwis::Settings { users: 8, fans: 200, until: Until::Acted(40) };
    for way in [Way::Strong, Way::Weak, Way::LatencyBound, Way::ErrorBound] {
        let report = retwis::run(way, &settings, clients(&cluster).await).await.unwrap();
        assert_eq!(report.broken, Vec::<String>::new(), "{way}");
        let tally = &report.tally;
        assert!(tally.counts["retweeted"] > 0, "{way}: {tally:?}");
        assert!(report.pages.len() > 2, "{way}: {:?}", report.pages);
        let shown = [tally.strong, tally.weak, tally.widths.len() as u64].map(|number| number > 0);
        match way {
            Way::Strong => assert_eq!(shown, [true, false, false]),
            Way::Weak => assert_eq!(shown, [false, true, false]),
            Way::LatencyBound => assert!(!shown[2], "{tally:?}"),
            Way::ErrorBound => assert!(shown[2], "{tally:?}"),
        }
    }
}

#[tokio::test]
async fn an_average_with_an_error_bound_contains_the_average() {
    let cluster = cluster(include_str!("../../../examples/deliveries.toml"));
    let mut clients = clients(&cluster).await;
    clients.truncate(3);
    let report = deliveries::run(clients, "shop", 60, Random::new(1)).await.unwrap();
    assert_eq!(report.times.len(), 1060);
    let seconds = 60 * report.times.iter().copied().map(i64::from).sum::<i64>();
    let number = report.times.len() as i64;
    for page in report.pages {
        // Each site knows of all deliveries, although nobody has waited for others.
        let (min, max) = page.average.unwrap().bounds();
        assert!(min * number <= seconds && seconds <= max * number, "{min} to {max}");
        // The error of a quotient is that of both counters.
        assert!(max - min <= min * 11 / 100, "{min} to {max}");
        assert!(page.tokens.iter().any(|(_, tokens)| *tokens > 0), "{:?}", page.tokens);
        let text = page.text();
        assert!(text.contains("average") && text.contains("last: "), "{text}");
    }
}

#[test]
fn a_quotient_is_rounded_outwards() {
    let quotient = |min, max, least, most| {
        let minutes = Interval::new(min, max).unwrap();
        deliveries::quotient(minutes, least, most).map(Interval::bounds)
    };
    assert_eq!(quotient(30, 30, 2, 2), Some((900, 900)));
    assert_eq!(quotient(100, 100, 7, 7), Some((857, 858)));
    assert_eq!(quotient(95, 105, 9, 10), Some((570, 700)));
    assert_eq!(quotient(0, 5, 0, 1), None);
    assert_eq!(quotient(0, i64::MAX, 1, 1), None);
}

/// The type of one's own has a rushed read, and its updates take the tokens of both counters, or
/// change nothing.
#[tokio::test]
async fn the_last_delivery_is_read_in_time_and_recorded_as_a_whole() {
    use deliveries::Deliveries;
    let cluster = cluster(include_str!("../../../examples/deliveries.toml"));
    let (mut here, mut there) =
        (clients(&cluster).await.remove(0), cluster.client(1).await.unwrap());
    let long = LatencyBound(Duration::from_secs(3600));
    let shop = Deliveries::open(&mut here, "shop", long).await.unwrap();
    assert!(shop.average(&mut here).await.unwrap().is_none());
    let last = shop.last(&mut here).await.unwrap();
    assert!(matches!(last, Rushed::Consistent(last) if last.is_none()), "{last:?}");
    assert_eq!(shop.record(&mut there, &[20, 35]).await.unwrap(), Taken::Units(()));
    let last = shop.last(&mut here).await.unwrap();
    assert!(matches!(last, Rushed::Consistent(last) if *last == Some(35)), "{last:?}");

    for other in ["1", "3"] {
        cluster.inject(Fault::Cut { a: "2".into(), b: other.into() }).await.unwrap();
    }
    let soon = LatencyBound(Duration::from_millis(20));
    let soon = Deliveries::open(&mut here, "shop", soon).await.unwrap();
    let last = soon.last(&mut here).await.unwrap();
    assert!(matches!(&last, Rushed::Causal(_)), "{last:?}");
    assert_eq!(*last.weaken().endorse(), Some(35));
    // So many minutes need more tokens than the site has, and the list is not changed either.
    let refused = soon.record(&mut there, &[u32::MAX]).await.unwrap();
    assert!(matches!(refused, Taken::CannotTell { .. }), "{refused:?}");
    let last = soon.last(&mut there).await.unwrap();
    assert_eq!(*last.weaken().endorse(), Some(35));
    // The space of a shop's times declares its type.
    let strong = Deliveries::open(&mut here, "shop", STRONG).await.unwrap();
    let refused = strong.last(&mut here).await.unwrap_err();
    assert_eq!(refused.code(), Some("UNAVAILABLE"), "{refused}");
}

#[tokio::test]
async fn a_type_of_ones_own_is_opened_only_as_its_spaces_declare() {
    use deliveries::Deliveries;
    let config = include_str!("../../../examples/deliveries.toml");
    for (from, to, expected) in [
        (
            "error = \"5%\"",
            "error = \"1%\"",
            "space 'minutes' has an error tolerance of 1%, not 5%",
        ),
        ("type = \"list\"", "type = \"set\"", "space 'times' has type 'set', not 'list'"),
        ("type = \"list\"", "", "space 'times' declares no type, and not 'list'"),
    ] {
        let cluster = cluster(&config.replace(from, to));
        let mut client = cluster.client(0).await.unwrap();
        let refused = Deliveries::open(&mut client, "shop", CAUSAL).await.err().unwrap();
        assert_eq!(refused.to_string(), expected);
    }
}
