//! Tests of transactions as functions, on clusters in this process.

use std::collections::BTreeSet;
use std::task::{Context, Waker};

use solera::Value;
use solera::mixed::System;
use solera::typed::{Counter, Error, Handle, Host, Program, TypedSession};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};
use solera_mixt::outcome::Limits;

mod groups {
    solera::mixt_file!("../../examples/message_groups.mixt");
}

mod bank {
    solera::mixt! {
        store directory : linearizable;
        transaction withdraw(from: handle<counter> in directory, sum: int) -> int {
            if from.value() < sum { abort "not enough"; }
            from.add(-sum);
            return from.value();
        }
    }
}

/// Three sites, with the spaces of the stores that the programs declare.
const SPACES: &str = include_str!("../../../tests/groups.toml");

fn cluster() -> Embedded {
    let spec = ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap();
    Embedded::with(spec).unwrap()
}

async fn groups_at(cluster: &Embedded, site: usize) -> TypedSession<groups::Program> {
    groups::Stores::within(&cluster.spaces(site).await.unwrap()).bind(System).unwrap()
}

#[tokio::test]
async fn message_groups_run_at_all_sites() {
    let cluster = cluster();
    let mut here = groups_at(&cluster, 0).await;
    let ann = groups::create_user(&mut here, "Ann").await.unwrap();
    let tea = groups::create_group(&mut here, "tea").await.unwrap();
    assert!(groups::join(&mut here, &tea, &ann).await.unwrap());
    // The directory is linearizable, so other sites see the change at once.
    let mut there = groups_at(&cluster, 2).await;
    assert!(!groups::join(&mut there, &tea, &ann).await.unwrap());
    let log = Handle::new("all");
    assert_eq!(groups::post(&mut here, &tea, &log, "hello").await.unwrap(), 1);
    let inbox = groups::inbox(&mut here, &ann).await.unwrap();
    assert_eq!(inbox, BTreeSet::from(["hello".to_owned()]));
    // Sessions can move to other threads.
    let posted = tokio::spawn(async move {
        let text = "from a task";
        let (group, log) = (tea, Handle::new("all"));
        groups::transaction!(
            &mut here,
            |group: handle<Group> in directory, log: handle<log<string>> in audit, text: string|
                -> list<handle<User> in mail> {
                log.append(text);
                return group.members;
            }
        )
        .await
    });
    assert_eq!(posted.await.unwrap().unwrap(), [ann]);
}

#[tokio::test]
async fn a_cluster_calls_a_module_as_this_process_does() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let source = <groups::Program as Program>::SOURCE;
    client.command(&["SOLERA.MODULE", "LOAD", "groups", source]).await.unwrap();
    let listed = client.command(&["SOLERA.MODULE", "LIST"]).await.unwrap();
    let name = System.module_name(source);
    // The cluster can therefore complete what this process leaves incomplete.
    assert!(format!("{listed:?}").contains(&format!("{:?}", Value::Bulk(name.into_bytes()))));
    let mut on = groups_at(&cluster, 0).await;
    let ann = groups::create_user(&mut on, "Ann").await.unwrap();
    let tea = groups::create_group(&mut on, "tea").await.unwrap();
    let call = ["SOLERA.CALL", "groups.join", &tea.to_string(), &ann.to_string()];
    let mut joined = cluster.client(1).await.unwrap();
    joined.attach(&client.token().await.unwrap()).await.unwrap();
    assert_eq!(joined.command(&call).await.unwrap(), Value::Boolean(true));
    assert!(!groups::join(&mut on, &tea, &ann).await.unwrap());
}

#[tokio::test]
async fn aborts_and_unavailability_are_reported() {
    let cluster = cluster();
    let spaces = cluster.spaces(0).await.unwrap();
    let on = bank::Stores::within(&spaces).bind(System).unwrap();
    let mut on = on.with_limits(Limits { attempts: 2, ..Limits::default() }).unwrap();
    let account: Handle<Counter, bank::stores::directory> = Handle::new("ann");
    let refused = bank::withdraw(&mut on, &account, 1).await.unwrap_err();
    assert_eq!(refused, Error::Aborted("not enough".into()));
    let fault = Fault::Kill { site: "1".into() };
    cluster.inject(fault).await.unwrap();
    let refused = bank::withdraw(&mut on, &account, 1).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
}

mod counters {
    solera::mixt! {
        store mail : causal;
        transaction read(at: handle<counter> in mail) -> int { return at.value(); }
        transaction two(a: handle<counter> in mail, b: handle<counter> in mail) {
            a.add(1);
            b.add(1);
        }
        transaction one(at: handle<counter> in mail) { at.add(1); }
    }
}

#[tokio::test]
async fn a_transaction_that_is_dropped_leaves_nothing_to_the_next() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    client.set("mail:a", "1").await.unwrap();
    client.set("mail:b", "2").await.unwrap();
    let mut on = counters::Stores::within(&cluster.spaces(0).await.unwrap()).bind(System).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(Handle::<Counter, counters::stores::mail>::new);
    assert_eq!(counters::read(&mut on, &c).await.unwrap(), 0);
    let mut context = Context::from_waker(Waker::noop());
    // Drop the transaction after different numbers of polls.
    for polls in 1..6 {
        let mut dropped = Box::pin(counters::read(&mut on, &a));
        for _ in 0..polls {
            if dropped.as_mut().poll(&mut context).is_ready() {
                break;
            }
            client.command(&["PING"]).await.unwrap();
        }
        drop(dropped);
        assert_eq!(counters::read(&mut on, &b).await.unwrap(), 2 + polls - 1);
        let mut dropped = Box::pin(counters::two(&mut on, &a, &c));
        for _ in 0..polls {
            if dropped.as_mut().poll(&mut context).is_ready() {
                break;
            }
            client.command(&["PING"]).await.unwrap();
        }
        drop(dropped);
        counters::one(&mut on, &b).await.unwrap();
        let (a, c) = (client.get("mail:a").await.unwrap(), client.get("mail:c").await.unwrap());
        let number = |text: Option<String>| text.map_or(0, |text| text.parse().unwrap());
        let (a, c): (i64, i64) = (number(a), number(c));
        assert_eq!(a, c + 1, "it has taken effect in part");
    }
}
