//! Rust code of the guide. Its pages show parts of this file, and `tests/guide/run` checks that
//! they do.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use solera::mixed::{Spaces, System};
use solera::speculative::Ticket;
use solera::typed::{Handle, Space};
use solera::{Client, Value};
use solera_embedded::{ClusterSpec, Embedded, Overrides};
use solera_language::compile::compile;
use solera_mixt::binding::Module;
use solera_mixt::store::BoxFuture;

mod groups {
    solera::mixt_file!("../../examples/message_groups.mixt");
}

mod bank {
    solera::mixt! {
        store accounts : linearizable;
        store mail : causal;

        transaction withdraw(from: handle<counter> in accounts, inbox: handle<set<string>> in mail, sum: int) -> int {
            if from.value() < sum { abort "not enough"; }
            from.add(-sum);
            inbox.add("withdrawn: " + string(sum));
            return from.value();
        }
    }
}

const SOURCE: &str = include_str!("../../../examples/message_groups.mixt");

/// Three sites, with the spaces of the stores that the programs declare.
fn cluster() -> Embedded {
    let more = "
[[space]]
name = 'inboxes'
prefix = 'inbox:'
level = 'causal'
[[space]]
name = 'accounts'
prefix = 'account:'
level = 'linearizable'
[[space]]
name = 'carts'
prefix = 'cart:'
level = 'pcpsi'
[[space]]
name = 'seats'
prefix = 'seats:'
level = 'speculative'
";
    let spaces = include_str!("../../../tests/groups.toml").to_owned() + more;
    Embedded::with(ClusterSpec::parse("guide", &spaces, Overrides::default()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_program_embeds_a_cluster() -> Result<(), Box<dyn Error>> {
    let cluster = solera_embedded::Embedded::start(3)?;
    let mut client = cluster.client(0).await?;
    client
        .transaction(async |tx| {
            tx.sadd("cart", "tea").await?;
            tx.incr_by("items", 1).await
        })
        .await?;

    let left = client
        .strong(async |tx| {
            tx.watch("stock").await?;
            tx.incr_by("stock", -1).await
        })
        .await?;
    assert_eq!(left, -1);
    Ok(())
}

#[tokio::test]
async fn a_closure_runs_in_a_transaction_of_level_pcpsi() -> Result<(), Box<dyn Error>> {
    let cluster = cluster();
    let mut client = cluster.client(0).await?;
    client.set("cart:total", "10").await?;
    let total = client
        .pcpsi(async |tx| {
            let before = tx.get("cart:total").await?;
            let total = before.map_or(0, |text| text.parse().unwrap_or(0)) + 5;
            tx.set("cart:total", total.to_string()).await?;
            Ok(total)
        })
        .await?;
    assert_eq!(total, 15);
    Ok(())
}

#[tokio::test]
async fn operations_have_tentative_and_final_results() -> Result<(), Box<dyn Error>> {
    let cluster = cluster();
    let mut client = cluster.client(0).await?;
    client.set("seats:flight", "3").await?;

    let seconds = Duration::from_secs(10);
    let mut sale = client.call_strong(&["DECRBY", "seats:flight", "1"]).await?;
    let shown = sale.tentative()?;
    let left = sale.stable(&mut client, Some(seconds)).await?;
    assert_eq!((shown, left), (Value::Integer(2), Value::Integer(2)));

    let mut sale = client.track_strong(&["DECRBY", "seats:flight", "1"]).await?;
    while let Some(revision) = sale.next_revision(&mut client).await? {
        println!("now {:?} are left, because of {:?}", revision.result(), revision.cause());
    }
    let sent = sale.ticket().map(ToString::to_string);
    let ticket = sent.as_deref().map(Ticket::from).ok_or("a strong operation has a ticket")?;

    let mut elsewhere = cluster.client(1).await?;
    let left = elsewhere.stable(&ticket, Some(seconds)).await?;
    assert_eq!(left, Value::Integer(1));
    Ok(())
}

#[tokio::test]
async fn transactions_are_functions() -> Result<(), Box<dyn Error>> {
    let cluster = cluster();
    let spaces = cluster.spaces(0).await?;
    let mut on = groups::Stores::within(&spaces).bind(System)?;
    let user = groups::create_user(&mut on, "Ann").await?;
    let inbox = groups::inbox(&mut on, &user).await?;
    assert_eq!(inbox, BTreeSet::new());

    let mail = Space::new(&spaces, "inboxes");
    let stores = groups::Stores { mail, ..groups::Stores::within(&spaces) };
    let mut elsewhere = stores.bind(System)?;
    let title = "Tea";
    let group = groups::create_group(&mut elsewhere, title).await?;

    let limit = 10;
    let text = "Who has the cups?";
    let tea = group;
    let title = groups::transaction!(
        &mut on,
        |tea: handle<Group> in directory, text: string, most: int = limit + 1| -> string {
            if tea.members.len() > most { abort "too many"; }
            for member in tea.members { member.inbox.add(text); }
            return tea.title;
        }
    )
    .await?;
    assert_eq!(title, "Tea");

    let mut bank = bank::Stores::within(&spaces).bind(System)?;
    let (from, inbox) = (Handle::new("ann"), Handle::new("ann"));
    assert!(bank::withdraw(&mut bank, &from, &inbox, 10).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_site_runs_phases_for_a_program() -> Result<(), Box<dyn Error>> {
    let cluster = cluster();
    let connect = move || -> BoxFuture<'static, Result<Client, solera::Error>> {
        let cluster = cluster.clone();
        Box::pin(async move { cluster.client(0).await })
    };
    let program = compile(SOURCE).program.ok_or("the program has errors")?;
    let program = Arc::new(program);
    let spaces = Spaces::of(connect).await?.executing([SOURCE]);
    let module = Module::new(&solera::mixed::digest(SOURCE), program)?;
    assert!(spaces.names().any(|name| name == "directory"));
    drop(module);
    Ok(())
}
