//! Message Groups as Rust functions, on a cluster of three sites in this process.
//!
//! `cargo run -p solera-embedded --example groups`

use std::error::Error;

use solera::mixed::System;
use solera::typed::Handle;
use solera_embedded::{ClusterSpec, Embedded, Overrides};

mod groups {
    // The macro checks and splits the program while this file compiles.
    solera::mixt_file!("../../examples/message_groups.mixt");
}

const SPACES: &str = include_str!("../../../examples/message_groups.toml");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Embedded::with(ClusterSpec::parse("groups", SPACES, Overrides::default())?)?;
    // Each store is bound to the space of its name.
    let mut here = groups::Stores::within(&cluster.spaces(0).await?).bind(System)?;

    let ann = groups::create_user(&mut here, "Ann").await?;
    let tea = groups::create_group(&mut here, "Tea").await?;
    println!("Ann joins: {}", groups::join(&mut here, &tea, &ann).await?);

    // The directory is linearizable, so Ann is a member at another site too.
    let mut there = groups::Stores::within(&cluster.spaces(1).await?).bind(System)?;
    println!("Ann joins again: {}", groups::join(&mut there, &tea, &ann).await?);

    let log = Handle::new("all");
    let sent = groups::post(&mut here, &tea, &log, "The water boils.").await?;
    println!("sent to {sent}: {:?}", groups::inbox(&mut here, &ann).await?);

    // A transaction outside any module; `tea` and `text` are variables of this function.
    let text = "Who has the cups?";
    let titled = groups::transaction!(
        &mut here,
        |tea: handle<Group> in directory, text: string| -> string {
            for member in tea.members {
                member.inbox.add(text);
            }
            return tea.title;
        }
    )
    .await?;
    println!("{titled}: {:?}", groups::inbox(&mut here, &ann).await?);
    Ok(())
}
