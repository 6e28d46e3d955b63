//! Tests of the types that state how consistent a value is, on a cluster in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera::ipa::{
    Answer, BoundedCounter, Causal, Consistency, Consistent, Counter, ErrorTolerance, Holds,
    Inconsistent, Interval, LatencyBound, Level, List, Policy, Pool, Rushed, Set, Taken, Wanted,
    level,
};
use solera::{Client, Error};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};

const SPACES: &str = "
    [[space]]
    name = 'strong'
    prefix = 's:'
    level = 'linearizable'
    [[space]]
    name = 'seats'
    prefix = 'seat:'
    level = 'linearizable'
    at_least = 'causal'
    [[space]]
    name = 'homes'
    prefix = 'h:'
    level = 'pcpsi'
    [[space]]
    name = 'views'
    prefix = 'v:'
    level = 'causal'
    type = 'counter'
    error = '5%'
    lease_ms = 500
    [[space]]
    name = 'stock'
    prefix = 'b:'
    level = 'causal'
    type = 'bounded-counter'
    [[space]]
    name = 'tickets'
    prefix = 't:'
    level = 'causal'
    type = 'pool'
    [[space]]
    name = 'retweets'
    prefix = 'r:'
    level = 'causal'
    type = 'set'
    error = '5%'
    [[space]]
    name = 'timelines'
    prefix = 'l:'
    level = 'causal'
    type = 'list'
";

const STRONG: Consistency<level::Linearizable> = Consistency::new();
const CAUSAL: Consistency<level::Causal> = Consistency::new();
const EVENTUAL: Consistency<level::Eventual> = Consistency::new();

fn cluster() -> Embedded {
    let spec = ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap();
    Embedded::with(spec).unwrap()
}

/// Cuts a site off from the two others.
async fn cut_off(cluster: &Embedded, site: &str, others: [&str; 2]) {
    for other in others {
        let fault = Fault::Cut { a: site.into(), b: other.into() };
        cluster.inject(fault).await.unwrap();
    }
}

fn reason<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Policy(reason)) => reason,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

/// The code of the guide.
#[tokio::test]
async fn values_are_opened_with_policies() -> Result<(), Error> {
    let cluster = cluster();
    let mut client = cluster.client(0).await?;
    let views = Counter::open(&mut client, "v:home", ErrorTolerance::percent(5)).await?;
    views.add(&mut client, 1).await?;
    let read: Interval<i64> = views.read(&mut client).await?;
    let popular = matches!(read.at_least(1000), Answer::Yes);
    assert!(!popular);

    let bound = LatencyBound(Duration::from_millis(50));
    let followers = Set::open(&mut client, "s:followers", bound).await?;
    followers.add(&mut client, "bob").await?;
    let text = match followers.contains(&mut client, "bob").await? {
        Rushed::Consistent(follows) if *follows => "bob follows you",
        Rushed::Consistent(_) => "bob does not follow you",
        rest => match *rest.weaken().endorse() {
            true => "bob seems to follow you",
            false => "bob may not follow you",
        },
    };
    assert!(text.starts_with("bob"));

    let causal = Consistency::<level::Causal>::new();
    let five = ErrorTolerance::percent(5);
    let retweets = Set::open_with_size(&mut client, "r:tweet", causal, five).await?;
    retweets.add(&mut client, "ann").await?;
    let size: Interval<i64> = retweets.size(&mut client).await?;
    assert!(!matches!(size.at_least(1), Answer::No));
    let ann: Causal<bool> = retweets.contains(&mut client, "ann").await?;
    assert!(*ann.endorse());

    let strong = Consistency::<level::Linearizable>::new();
    let checked = retweets.under(strong)?;
    let bob: Consistent<bool> = checked.contains(&mut client, "bob").await?;
    assert!(!*bob);

    let tickets = Pool::open(&mut client, "t:concert", causal).await?;
    tickets.grow(&mut client, 100).await?;
    let text = match tickets.take(&mut client, 2).await? {
        Taken::Units(ids) => format!("your tickets: {}", ids.join(", ")),
        Taken::SoldOut { .. } => "sold out".to_owned(),
        Taken::CannotTell { .. } => "try again later".to_owned(),
    };
    assert!(text.starts_with("your tickets"));

    let timeline = List::open(&mut client, "l:ann", causal).await?;
    timeline.push(&mut client, "hello").await?;
    let newest: Causal<Vec<String>> = timeline.newest(&mut client, 10).await?;
    assert_eq!(*newest.endorse(), ["hello"]);
    Ok(())
}

#[tokio::test]
async fn the_policy_determines_the_type_of_a_read() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let counter = Counter::open(&mut client, "s:n", STRONG).await.unwrap();
    let zero: Consistent<i64> = counter.read(&mut client).await.unwrap();
    assert_eq!(*zero, 0);
    counter.add(&mut client, 7).await.unwrap();
    // Another site reads it strongly at once.
    let mut there = cluster.client(1).await.unwrap();
    let seven: Consistent<i64> = counter.read(&mut there).await.unwrap();
    assert_eq!(*seven, 7);
    let weak = Counter::open(&mut client, "s:n", CAUSAL).await.unwrap();
    let weak: Causal<i64> = weak.read(&mut client).await.unwrap();
    assert_eq!(*weak.endorse(), 7, "a session sees what it has written");

    let views = Counter::open(&mut client, "v:1", ErrorTolerance::percent(5)).await.unwrap();
    views.add(&mut client, 1000).await.unwrap();
    let interval: Interval<i64> = views.read(&mut client).await.unwrap();
    assert!(interval.contains(1000), "{interval}");
    assert!(matches!(interval.at_least(900), Answer::Yes));
}

#[tokio::test]
async fn a_read_with_a_bound_returns_the_level_that_it_had() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let long = LatencyBound(Duration::from_secs(3600));
    let set = Set::open(&mut client, "s:set", long).await.unwrap();
    set.add(&mut client, "ann").await.unwrap();
    let found = set.contains(&mut client, "ann").await.unwrap();
    assert!(matches!(found, Rushed::Consistent(found) if *found), "{found:?}");
    assert!(matches!(set.size(&mut client).await.unwrap(), Rushed::Consistent(size) if *size == 1));
    // Without a quorum, only the local value arrives.
    cut_off(&cluster, "1", ["2", "3"]).await;
    let short = LatencyBound(Duration::from_millis(20));
    let set = Set::open(&mut client, "s:set", short).await.unwrap();
    match set.elements(&mut client).await.unwrap() {
        Rushed::Causal(elements) => {
            assert_eq!(*elements.endorse(), BTreeSet::from(["ann".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_causal_space_with_a_type_offers_strong_reads() {
    let cluster = cluster();
    let (mut here, mut there) =
        (cluster.client(0).await.unwrap(), cluster.client(1).await.unwrap());
    let list = List::open(&mut here, "l:posts", STRONG).await.unwrap();
    list.push(&mut there, "hello").await.unwrap();
    let newest: Consistent<Vec<String>> = list.newest(&mut here, 1).await.unwrap();
    assert_eq!(*newest, ["hello"]);
    let long = LatencyBound(Duration::from_secs(3600));
    let pool = Pool::open(&mut here, "t:show", long).await.unwrap();
    pool.grow(&mut there, 3).await.unwrap();
    let left = pool.left(&mut here).await.unwrap();
    assert!(matches!(left, Rushed::Consistent(left) if *left == 3), "{left:?}");
    // It needs the answer of every site.
    cut_off(&cluster, "3", ["1", "2"]).await;
    let refused = list.newest(&mut here, 1).await.unwrap_err();
    assert_eq!(refused.code(), Some("UNAVAILABLE"), "{refused}");
    let short = LatencyBound(Duration::from_millis(20));
    let pool = Pool::open(&mut here, "t:show", short).await.unwrap();
    match pool.left(&mut here).await.unwrap() {
        Rushed::Causal(left) => assert_eq!(*left.endorse(), 3),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_size_of_a_set_may_have_its_own_policy() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let set = Set::open_with_size(&mut client, "s:set", STRONG, CAUSAL).await.unwrap();
    set.add(&mut client, "ann").await.unwrap();
    set.add(&mut client, "bob").await.unwrap();
    set.remove(&mut client, "bob").await.unwrap();
    let found: Consistent<bool> = set.contains(&mut client, "bob").await.unwrap();
    assert!(!*found);
    let size: Causal<i64> = set.size(&mut client).await.unwrap();
    assert_eq!(*size.endorse(), 1);
}

/// The causal spaces answer strong reads only if all sites do.
#[tokio::test]
async fn each_reading_method_may_have_a_stronger_policy_than_its_value() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let counter = Counter::open(client, "v:1", CAUSAL).await.unwrap();
    counter.add(client, 7).await.unwrap();
    let set = Set::open(client, "r:1", CAUSAL).await.unwrap();
    set.add(client, "ann").await.unwrap();
    let list = List::open(client, "l:1", CAUSAL).await.unwrap();
    list.push(client, "hello").await.unwrap();
    let stock = BoundedCounter::open(client, "b:1", CAUSAL).await.unwrap();
    stock.add(client, 5).await.unwrap();
    let pool = Pool::open(client, "t:1", CAUSAL).await.unwrap();
    pool.grow(client, 3).await.unwrap();

    let exact = counter.under(STRONG).unwrap();
    let checked = set.under(STRONG).unwrap();
    let counted = set.size_under(STRONG).unwrap();
    let complete = list.under(STRONG).unwrap();
    let units = stock.under(STRONG).unwrap();
    let left = pool.under(STRONG).unwrap();
    let mut there = cluster.client(1).await.unwrap();
    let read: Consistent<i64> = exact.read(&mut there).await.unwrap();
    assert_eq!(*read, 7);
    let read: Consistent<bool> = checked.contains(&mut there, "ann").await.unwrap();
    assert!(*read);
    let read: Consistent<BTreeSet<String>> = checked.elements(&mut there).await.unwrap();
    assert_eq!(read.len(), 1);
    let read: Consistent<i64> = checked.size(&mut there).await.unwrap();
    assert_eq!(*read, 1);
    let read: Consistent<i64> = counted.size(&mut there).await.unwrap();
    assert_eq!(*read, 1);
    let read: Consistent<Vec<String>> = complete.newest(&mut there, 2).await.unwrap();
    assert_eq!(*read, ["hello"]);
    let read: Consistent<i64> = units.read(&mut there).await.unwrap();
    assert_eq!(*read, 5);
    let read: Consistent<i64> = left.left(&mut there).await.unwrap();
    assert_eq!(*read, 3);

    cut_off(&cluster, "3", ["1", "2"]).await;
    for (method, refused) in [
        ("counter", exact.read(client).await.err()),
        ("contains", checked.contains(client, "ann").await.err()),
        ("elements", checked.elements(client).await.err()),
        ("size", checked.size(client).await.err()),
        ("size alone", counted.size(client).await.err()),
        ("newest", complete.newest(client, 2).await.err()),
        ("units", units.read(client).await.err()),
        ("left", left.left(client).await.err()),
        // A weaker policy does not weaken the value's.
        ("weaker", exact.under(CAUSAL).unwrap().read(client).await.err()),
        ("weaker size", checked.size_under(EVENTUAL).unwrap().size(client).await.err()),
    ] {
        let refused = refused.unwrap_or_else(|| panic!("{method} is weak"));
        assert_eq!(refused.code(), Some("UNAVAILABLE"), "{method}: {refused}");
    }
    // The policies of the values, and of the other methods, are still what they were.
    let read: Causal<i64> = counter.read(client).await.unwrap();
    assert_eq!(*read.endorse(), 7);
    let read: Causal<bool> = set.contains(client, "ann").await.unwrap();
    assert!(*read.endorse());
    let read: Causal<bool> = counted.contains(client, "ann").await.unwrap();
    assert!(*read.endorse());
    let read: Causal<Vec<String>> = list.newest(client, 2).await.unwrap();
    assert_eq!(*read.endorse(), ["hello"]);
    let read: Causal<i64> = stock.read(client).await.unwrap();
    assert_eq!(*read.endorse(), 5);
    let read: Causal<i64> = pool.left(client).await.unwrap();
    assert_eq!(*read.endorse(), 3);
}

#[tokio::test]
async fn a_level_and_a_bound_return_the_strongest_value_in_time_from_this_level_on() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let long = LatencyBound(Duration::from_secs(3600));
    let short = LatencyBound(Duration::from_millis(20));
    let pool = Pool::open(client, "t:show", CAUSAL).await.unwrap();
    pool.grow(client, 3).await.unwrap();
    let left: Rushed<i64> = pool.under(long).unwrap().left(client).await.unwrap();
    assert!(matches!(left, Rushed::Consistent(left) if *left == 3), "{left:?}");
    let rushed = Pool::open(client, "t:show", long).await.unwrap();
    let least = rushed.under(CAUSAL).unwrap();
    let left: Rushed<i64> = least.left(client).await.unwrap();
    assert!(matches!(left, Rushed::Consistent(left) if *left == 3), "{left:?}");

    // The value of every site does not arrive any more.
    cut_off(&cluster, "3", ["1", "2"]).await;
    for bounded in [pool.under(short).unwrap(), least.under(short).unwrap()] {
        let left = bounded.left(client).await.unwrap();
        assert_eq!(left.level(), Level::Causal);
        let left: Causal<i64> = left.at_least::<level::Causal>().unwrap();
        assert_eq!(*left.endorse(), 3);
    }
    let short = Pool::open(client, "t:show", short).await.unwrap();
    assert!(matches!(short.left(client).await.unwrap(), Rushed::Causal(_)));
    for refused in [
        short.under(STRONG).unwrap().left(client).await,
        least.under(STRONG).unwrap().left(client).await,
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Some("UNAVAILABLE"), "{refused}");
    }
}

#[tokio::test]
async fn a_tolerance_and_a_level_return_an_interval_or_an_exact_value() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let (five, soon) = (ErrorTolerance::percent(5), LatencyBound(Duration::from_millis(20)));
    let weak = Counter::open(client, "v:1", CAUSAL).await.unwrap();
    weak.add(client, 1000).await.unwrap();
    let bounded = weak.under(five).unwrap();
    for counter in [&bounded, &bounded.under(EVENTUAL).unwrap(), &bounded.under(soon).unwrap()] {
        let read: Interval<i64> = counter.read(client).await.unwrap();
        assert!(read.contains(1000) && read.width() <= 50, "{read}");
    }
    let exact = bounded.under(STRONG).unwrap();
    let read: Consistent<i64> = exact.read(client).await.unwrap();
    assert_eq!(*read, 1000);

    let set = Set::open(client, "r:1", CAUSAL).await.unwrap().size_under(five).unwrap();
    set.add(client, "ann").await.unwrap();
    let found: Causal<bool> = set.contains(client, "ann").await.unwrap();
    assert!(*found.endorse());
    let size: Interval<i64> = set.size(client).await.unwrap();
    assert!(size.contains(1), "{size}");
    let both = set.under(STRONG).unwrap();
    let found: Consistent<bool> = both.contains(client, "ann").await.unwrap();
    let size: Consistent<i64> = both.size(client).await.unwrap();
    assert!(*found && *size == 1);
}

#[tokio::test]
async fn the_newest_elements_of_a_list_are_read_with_a_policy() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let list = List::open(&mut client, "s:posts", STRONG).await.unwrap();
    let none: Consistent<Vec<String>> = list.newest(&mut client, 3).await.unwrap();
    assert!(none.is_empty());
    for post in ["one", "two", "three", "two"] {
        list.push(&mut client, post).await.unwrap();
    }
    let mut there = cluster.client(1).await.unwrap();
    let newest: Consistent<Vec<String>> = list.newest(&mut there, 3).await.unwrap();
    assert_eq!(*newest, ["two", "three", "two"]);
    let refused = list.newest(&mut client, 0).await.unwrap_err();
    assert_eq!(refused.code(), Some("ERR"), "{refused}");

    // Without a quorum, only the local value arrives.
    cut_off(&cluster, "1", ["2", "3"]).await;
    let short = LatencyBound(Duration::from_millis(20));
    let list = List::open(&mut client, "s:posts", short).await.unwrap();
    match list.newest(&mut client, 1).await.unwrap() {
        Rushed::Causal(newest) => assert_eq!(*newest.endorse(), ["two"]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sold_out_and_cannot_tell_are_different_answers() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let pool = Pool::open(&mut client, "t:show", CAUSAL).await.unwrap();
    pool.grow(&mut client, 3).await.unwrap();
    let Taken::Units(ids) = pool.take(&mut client, 2).await.unwrap() else {
        panic!("three are left")
    };
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(*pool.left(&mut client).await.unwrap().endorse(), 1);
    // The interval is wider until the other sites have acknowledged the updates.
    loop {
        let (least, most) = pool.count(&mut client).await.unwrap().bounds();
        assert!((least..=most).contains(&1), "{least} to {most}");
        if (least, most) == (1, 1) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = pool.take(&mut client, 2).await.unwrap();
    assert!(matches!(refused, Taken::SoldOut { .. }), "{refused:?}");

    let stock = BoundedCounter::open(&mut client, "b:shirt", CAUSAL).await.unwrap();
    stock.add(&mut client, 5).await.unwrap();
    assert_eq!(stock.subtract(&mut client, 2).await.unwrap(), Taken::Units(()));
    let refused = stock.subtract(&mut client, 4).await.unwrap();
    assert!(matches!(refused, Taken::SoldOut { .. }), "{refused:?}");
    assert_eq!(*stock.read(&mut client).await.unwrap().endorse(), 3);

    cut_off(&cluster, "1", ["2", "3"]).await;
    let refused = pool.take(&mut client, 2).await.unwrap();
    assert!(matches!(refused, Taken::CannotTell { .. }), "{refused:?}");
    assert!(matches!(pool.take(&mut client, 1).await.unwrap(), Taken::Units(_)), "it has this one");
}

/// The parts of types of one's own.
#[tokio::test]
async fn tokens_and_rights_are_taken_and_shown() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    client.grow("t:show", 3).await.unwrap();
    let rights = async |client: &mut Client| {
        let holders = client.holders("t:show").await.unwrap();
        let rights = holders.into_iter().map(|holder| match holder.holds {
            Holds::Rights { rights, age } => {
                assert_eq!(rights.is_some(), age.is_some());
                (holder.site, rights)
            }
            tokens @ Holds::Tokens { .. } => panic!("{tokens:?}"),
        });
        rights.collect::<BTreeMap<_, _>>()
    };
    let sites = |rights: [Option<u64>; 3]| {
        let sites = ["virginia", "california", "frankfurt"].map(str::to_owned).into_iter();
        sites.zip(rights).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(rights(client).await, sites([Some(3), Some(0), Some(0)]));
    let Taken::Units(ids) = client.take("t:show", 2).await.unwrap() else { panic!("3 are left") };
    assert_eq!(ids.len(), 2);
    assert_eq!(rights(client).await["virginia"], Some(1));
    let refused = client.take("t:show", 2).await.unwrap();
    assert!(matches!(refused, Taken::SoldOut { .. }), "{refused:?}");
    // The commit of a transaction takes what its updates need.
    let reserve = async |client: &mut Client, number: i64| {
        let reserved = client.transaction(async |tx| {
            tx.sadd("cart", "shirt").await?;
            tx.incr_by("b:shirt", -number).await.map(drop)
        });
        Taken::of(reserved.await)
    };
    client.incr_by("b:shirt", 4).await.unwrap();
    let refused = reserve(client, 5).await.unwrap();
    assert!(matches!(refused, Taken::SoldOut { .. }), "{refused:?}");
    assert!(!client.exists("cart").await.unwrap(), "nothing was changed");
    assert_eq!(reserve(client, 4).await.unwrap(), Taken::Units(()));
    assert!(client.exists("cart").await.unwrap());

    client.incr_by("v:home", 1000).await.unwrap();
    let holders = client.holders("v:home").await.unwrap();
    let [one, ..] = &holders[..] else { panic!("{holders:?}") };
    assert_eq!((one.site.as_str(), holders.len()), ("virginia", 3));
    match one.holds {
        Holds::Tokens { increments, kept_for, answers, answers_for, .. } => {
            assert!(increments > 0 && kept_for.is_some(), "{one:?}");
            assert!(answers && answers_for.is_some(), "{one:?}");
        }
        Holds::Rights { .. } => panic!("{one:?}"),
    }
    let refused = client.holders("x").await.unwrap_err();
    assert_eq!(refused.code(), Some("ERR"), "{refused}");

    // A site that does not answer may have a unit.
    cut_off(&cluster, "3", ["1", "2"]).await;
    let mut there = cluster.client(2).await.unwrap();
    assert_eq!(rights(&mut there).await["frankfurt"], Some(0));
    let refused = there.take("t:show", 1).await.unwrap();
    assert!(matches!(refused, Taken::CannotTell { .. }), "{refused:?}");
}

#[tokio::test]
async fn units_in_a_transaction_are_taken_when_it_commits() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let pool = Pool::open(&mut client, "t:show", CAUSAL).await.unwrap();
    pool.grow(&mut client, 1).await.unwrap();
    let buy = async |client: &mut Client| {
        let pool = &pool;
        let order = client.transaction(async |tx| {
            tx.set("order", "paid").await?;
            pool.take(tx, 1).await
        });
        order.await
    };
    assert!(matches!(buy(&mut client).await.unwrap(), Taken::Units(ids) if ids.len() == 1));
    client.del("order").await.unwrap();
    let refused = buy(&mut client).await.unwrap_err();
    assert_eq!(refused.code(), Some("SOLDOUT"), "{refused}");
    assert_eq!(client.get("order").await.unwrap(), None, "nothing was changed");
    // Reads are refused inside a transaction, and strong transactions refuse the update.
    let read = client.transaction(async |tx| pool.left(tx).await).await.unwrap_err();
    assert_eq!(read.code(), Some("ERR"), "{read}");
    let strong = client.strong(async |tx| pool.take(tx, 1).await).await.unwrap_err();
    assert_eq!(strong.code(), Some("ERR"), "{strong}");
}

#[tokio::test]
async fn a_value_is_opened_only_as_its_space_declares() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let five = ErrorTolerance::percent(5);
    for (refused, expected) in [
        (
            reason(Counter::open(client, "v:1", ErrorTolerance::percent(1)).await),
            "space 'views' has an error tolerance of 5%, not 1%",
        ),
        (
            reason(Counter::open(client, "s:1", ErrorTolerance::parts_per_million(5)).await),
            "space 'strong' has no error bound, and not one of 0.0005%",
        ),
        (
            reason(Counter::open(client, "x", STRONG).await),
            "space 'default' has level causal, not linearizable",
        ),
        (
            reason(Counter::open(client, "t:1", CAUSAL).await),
            "space 'tickets' has type 'pool', not 'counter'",
        ),
        (
            reason(Pool::open(client, "b:1", CAUSAL).await),
            "space 'stock' has type 'bounded-counter', not 'pool'",
        ),
        (
            reason(Pool::open(client, "x", CAUSAL).await),
            "space 'default' declares no type, and not 'pool'",
        ),
        (reason(Pool::open(client, "t:1", five).await), "space 'tickets' has no error bound"),
        (reason(Counter::open(client, "h:1", CAUSAL).await), "space 'homes' has level pcpsi"),
        (
            reason(Set::open(client, "h:1", LatencyBound(Duration::from_millis(5))).await),
            "space 'homes' has level pcpsi, which no read can change",
        ),
        (
            reason(Set::open(client, "v:1", CAUSAL).await),
            "space 'views' has type 'counter', not 'set'",
        ),
        (
            reason(Set::open(client, "l:1", CAUSAL).await),
            "space 'timelines' has type 'list', not 'set'",
        ),
        (
            reason(List::open(client, "t:1", CAUSAL).await),
            "space 'tickets' has type 'pool', not 'list'",
        ),
        (
            reason(Set::open_with_size(client, "s:1", STRONG, five).await),
            "space 'strong' has no error bound",
        ),
    ] {
        assert!(refused.starts_with(expected), "{refused}");
    }
    for opened in [
        Counter::open(client, "seat:1", EVENTUAL).await.err(),
        Counter::open(client, "seat:1", CAUSAL).await.err(),
        Counter::open(client, "seat:1", STRONG).await.err(),
        Counter::open(client, "seat:1", LatencyBound(Duration::from_millis(5))).await.err(),
        Counter::open(client, "s:1", EVENTUAL).await.err(),
    ] {
        assert!(opened.is_none(), "{opened:?}");
    }
}

#[tokio::test]
async fn a_further_policy_is_accepted_only_as_the_space_declares() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let five = ErrorTolerance::percent(5);
    let views = Counter::open(client, "v:1", five).await.unwrap();
    let plain = Counter::open(client, "x", CAUSAL).await.unwrap();
    let set = Set::open(client, "x", CAUSAL).await.unwrap();
    let list = List::open(client, "x", EVENTUAL).await.unwrap();
    let pool = Pool::open(client, "t:1", CAUSAL).await.unwrap();
    let stock = BoundedCounter::open(client, "b:1", CAUSAL).await.unwrap();
    let soon = LatencyBound(Duration::from_millis(5));
    let wrong = ErrorTolerance::percent(1);
    let weak = "space 'default' has level causal, not linearizable";
    for (refused, expected) in [
        (
            reason(views.under(wrong).map(drop)),
            "space 'views' has an error tolerance of 5%, not 1%",
        ),
        (reason(plain.under(five).map(drop)), "space 'default' has no error bound"),
        (reason(plain.under(STRONG).map(drop)), weak),
        (reason(plain.under(soon.at_least::<level::Linearizable>()).map(drop)), weak),
        (reason(set.under(STRONG).map(drop)), weak),
        (reason(set.size_under(STRONG).map(drop)), weak),
        (reason(set.size_under(five).map(drop)), "space 'default' has no error bound"),
        (reason(list.under(STRONG).map(drop)), weak),
        (reason(pool.under(five).map(drop)), "space 'tickets' has no error bound"),
        (reason(stock.under(five).map(drop)), "space 'stock' has no error bound"),
    ] {
        assert!(refused.starts_with(expected), "{refused}");
    }
    assert!(plain.under(soon).is_ok() && list.under(CAUSAL).is_ok());
}

#[tokio::test]
async fn a_tolerance_that_no_space_can_have_is_an_error() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    for (percents, shown) in [(0, "0%"), (500, "500%")] {
        let wrong = ErrorTolerance::percent(percents);
        let refused = reason(Counter::open(&mut client, "v:1", wrong).await);
        let expected = "an error tolerance is more than 0% and at most 100%, not ";
        assert_eq!(refused, format!("{expected}{shown}"));
    }
}

/// The stronger of two levels holds: the space's and the program's.
#[tokio::test]
async fn a_read_is_not_weaker_than_its_space_permits() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let client = &mut client;
    let seats = Counter::open(client, "seat:1", EVENTUAL).await.unwrap();
    seats.add(client, 3).await.unwrap();
    let read: Inconsistent<i64> = seats.read(client).await.unwrap();
    assert_eq!(*read.endorse(), 3);
    // A policy of one's own sees the level that the read had.
    for (key, expected) in [("seat:1", Level::Causal), ("s:1", Level::Eventual)] {
        let read = client.read_under(&Weakest, key, &[b"EXISTS"], |_| Ok(())).await.unwrap();
        assert_eq!(read, ((), expected), "{key}");
    }
    // A connection that has opened nothing.
    let mut other = cluster.client(1).await.unwrap();
    assert!(seats.read(&mut other).await.is_ok());
}

/// Reads at any level, and returns the level.
#[derive(Clone, Copy)]
struct Weakest;

impl Policy for Weakest {
    type Read<T> = (T, Level);

    fn wanted(&self) -> Wanted {
        Wanted::At(Level::Eventual)
    }

    fn label<T>(&self, value: T, level: Level) -> Option<(T, Level)> {
        Some((value, level))
    }
}

#[tokio::test]
async fn a_counter_of_something_else_is_an_error() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    client.sadd("s:x", "element").await.unwrap();
    let counter = Counter::open(&mut client, "s:x", STRONG).await.unwrap();
    let refused = counter.read(&mut client).await.unwrap_err();
    assert_eq!(refused.code(), Some("WRONGTYPE"), "{refused}");
    client.set("s:y", "text").await.unwrap();
    let counter = Counter::open(&mut client, "s:y", STRONG).await.unwrap();
    assert!(matches!(counter.read(&mut client).await, Err(Error::UnexpectedReply(_))));
}
