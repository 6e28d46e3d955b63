//! `solera demo`: runs short scenarios on an embedded cluster, and checks every claim that it
//! prints.

mod checkout;
mod groups;
mod invariants;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use solera::{Client, Error};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides, StartError};

use crate::output;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  solera demo          pauses, to give time to read
  solera demo --fast   does not pause, for scripts
  solera demo message-groups
                       checks, explains and measures a program with stores of several levels
  scripts/with-stores solera demo checkout
                       sells the stock in a PostgreSQL table at three sites";

const CHECKOUT: &str = "\
Examples:
  solera demo checkout --postgres postgresql://shop:secret@127.0.0.1:5432/shop
  scripts/with-stores solera demo checkout
                       starts a server for the demo; in Solera's repository

Creates a schema called solera_demo_… in the database, and removes it at the end. The user needs
the CREATE privilege on the database. Exits with 1 if a check fails.";

/// Watch a geo-replicated cluster keep its guarantees, in a few seconds
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Do not pause, and measure for one second only
    #[arg(long, global = true)]
    fast: bool,
    #[command(subcommand)]
    story: Option<Story>,
}

/// Other demos.
#[derive(Debug, Subcommand)]
enum Story {
    /// Check, explain and measure the Message Groups program: mixed levels compared with all
    /// linearizable
    #[command(after_help = "Example:\n  solera demo message-groups --seconds 5")]
    MessageGroups {
        /// Time to measure each variant, in seconds [default: 10, or 1 with --fast]
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: Option<u64>,
    },
    /// Sell the stock in a PostgreSQL table at three sites, and check that nothing is sold twice
    #[command(after_help = CHECKOUT)]
    Checkout {
        /// URL of the database [default: $SOLERA_TEST_POSTGRES]
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// Maximum time that customers shop, in seconds; they stop when the stock is gone
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
    },
}

/// Runs the demo; fails if a check does.
pub(crate) fn main(args: &DemoArgs) -> ExitCode {
    match &args.story {
        Some(Story::MessageGroups { seconds }) => {
            groups::main(seconds.unwrap_or(if args.fast { 1 } else { 10 }))
        }
        Some(Story::Checkout { postgres, seconds }) => {
            checkout::main(postgres.as_deref(), *seconds)
        }
        None => exit_code(in_runtime(run(args))),
    }
}

fn in_runtime(story: impl Future<Output = Checked>) -> Result<(), String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(story).map_err(|error| error.0))
}

fn exit_code(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("\nthe demo failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Error of a demo: a failed check, or the reason why the demo could not run.
struct CheckFailed(String);

impl From<Error> for CheckFailed {
    fn from(error: Error) -> Self {
        CheckFailed(error.to_string())
    }
}

impl From<StartError> for CheckFailed {
    fn from(error: StartError) -> Self {
        CheckFailed(error.to_string())
    }
}

type Checked = Result<(), CheckFailed>;

struct Stage {
    cluster: Embedded,
    pause: Duration,
    colour: bool,
    chapter: Arc<AtomicU32>,
}

const VIRGINIA: usize = 0;
const CALIFORNIA: usize = 1;
const FRANKFURT: usize = 2;

async fn run(args: &DemoArgs) -> Checked {
    let over = Overrides { wan: Some("aws".into()), ..Overrides::default() };
    let spec = ClusterSpec::parse("examples/invariants.toml", invariants::SPACES, over)
        .map_err(|error| CheckFailed(error.to_string()))?;
    let terminal = std::io::stdout().is_terminal();
    let mut stage = Stage {
        cluster: Embedded::with(spec)?,
        pause: Duration::from_millis(if args.fast || !terminal { 0 } else { 1300 }),
        colour: terminal,
        chapter: Arc::default(),
    };
    // On a terminal, the output of the demo itself shows its progress.
    let chapter = stage.chapter.clone();
    let _progress = Progress::unless_on_terminal(move || {
        format!("chapter {}", chapter.load(Ordering::Relaxed))
    });
    stage.say("Three sites: virginia ─61 ms─ california, virginia ─90 ms─ frankfurt,");
    stage.say("california ─147 ms─ frankfurt. Any one of them may fail.");
    causality(&mut stage).await?;
    merging(&mut stage).await?;
    partition(&mut stage).await?;
    death(&mut stage).await?;
    loss(&mut stage).await?;
    invariants::overdraft(&mut stage).await?;
    invariants::unique_names(&mut stage).await?;
    invariants::auction(&mut stage).await?;
    output!("\n{}", stage.bold("Every statement above was checked while the demo ran."));
    output!("Next: `solera up --wan aws`, then `redis-cli -p 7101`.");
    Ok(())
}

async fn causality(stage: &mut Stage) -> Checked {
    stage.title("What you see, you see with all it depends on");
    let mut alice = stage.cluster.client(VIRGINIA).await?;
    let mut bob = stage.cluster.client(FRANKFURT).await?;
    let started = Instant::now();
    alice.incr_by("account:bob", 100).await?;
    alice.sadd("inbox:bob", "Alice sent you 100").await?;
    let local = started.elapsed();
    stage.say(&format!(
        "virginia   Alice pays Bob 100, then posts a note: both done in {}",
        ms(local)
    ));
    let waited = wait_until(async || Ok(!bob.smembers("inbox:bob").await?.is_empty())).await?;
    let balance = bob.get("account:bob").await?;
    stage.say(&format!(
        "frankfurt  Bob sees the note {} later, once it is safe at two sites,",
        ms(waited)
    ));
    check(balance.as_deref() == Some("100"), "Bob sees the note but not the money")?;
    stage.say("           and so he also sees the money: 100. Never one without the other.");
    Ok(())
}

async fn merging(stage: &mut Stage) -> Checked {
    stage.title("Concurrent updates merge, by type");
    let mut here = stage.cluster.client(VIRGINIA).await?;
    let mut there = stage.cluster.client(CALIFORNIA).await?;
    here.sadd("cart", "tea").await?;
    wait_until(async || there.sismember("cart", "tea").await).await?;
    here.incr_by("likes", 2).await?;
    there.incr_by("likes", 3).await?;
    here.srem("cart", "tea").await?;
    there.sadd("cart", "tea").await?;
    stage.say("virginia   likes +2, takes the tea out of the cart");
    stage.say("california likes +3, adds tea again, at the same time");
    for client in [&mut here, &mut there] {
        wait_until(async || Ok(client.get("likes").await?.as_deref() == Some("5"))).await?;
        wait_until(async || client.sismember("cart", "tea").await).await?;
    }
    stage.say(
        "both       5 likes, and the tea stays: an add wins over a removal that did not see it",
    );
    Ok(())
}

async fn partition(stage: &mut Stage) -> Checked {
    stage.title("Sites work on during a network partition");
    let mut here = stage.cluster.client(VIRGINIA).await?;
    let mut there = stage.cluster.client(FRANKFURT).await?;
    for other in ["virginia", "california"] {
        stage.fault(Fault::Cut { a: "frankfurt".into(), b: other.into() }).await?;
    }
    stage.say("✂          frankfurt is cut off from both others");
    let started = Instant::now();
    there
        .transaction(async |tx| {
            tx.hset("page", "title", "Grüße").await?;
            tx.incr_by("edits", 1).await
        })
        .await?;
    let local = started.elapsed();
    here.hset("page", "author", "Ann").await?;
    here.incr_by("edits", 1).await?;
    stage.say(&format!("frankfurt  commits a transaction alone, in {}", ms(local)));
    stage.say("virginia   edits the same page");
    check(here.hget("page", "title").await?.is_none(), "the cut leaks")?;
    stage.fault(Fault::Heal {}).await?;
    let healed = Instant::now();
    for client in [&mut here, &mut there] {
        wait_until(async || {
            let page = client.hgetall("page").await?;
            Ok(page.len() == 2 && client.get("edits").await?.as_deref() == Some("2"))
        })
        .await?;
    }
    stage.say(&format!(
        "healed     {} later both sites have title, author and 2 edits",
        ms(healed.elapsed())
    ));
    Ok(())
}

async fn death(stage: &mut Stage) -> Checked {
    stage.title("A site dies; the session lives");
    let mut carol = stage.cluster.client(CALIFORNIA).await?;
    carol.set("order:7", "paid").await?;
    let started = Instant::now();
    carol.barrier(Some(Duration::from_secs(10))).await?;
    let token = carol.token().await?;
    stage.say(&format!(
        "california Carol pays; a barrier confirms {} later that it is safe elsewhere",
        ms(started.elapsed())
    ));
    stage.say(&format!("           she keeps a token: {:.34}…", token.to_string()));
    stage.fault(Fault::Kill { site: "california".into() }).await?;
    stage.say("✖          california is gone");
    check(carol.get("order:7").await.is_err(), "a dead site answers")?;
    let mut carol = stage.cluster.client(FRANKFURT).await?;
    carol.attach(&token).await?;
    check(
        carol.get("order:7").await?.as_deref() == Some("paid"),
        "a durable write is gone with its site",
    )?;
    stage.say("frankfurt  Carol attaches her token and reads her order: paid");
    stage.fault(Fault::Restart { site: "california".into() }).await?;
    Ok(())
}

async fn loss(stage: &mut Stage) -> Checked {
    stage.title("If a write is lost, the database reports it");
    let mut dave = stage.cluster.client(FRANKFURT).await?;
    for other in ["virginia", "california"] {
        stage.fault(Fault::Cut { a: "frankfurt".into(), b: other.into() }).await?;
    }
    dave.set("draft", "unsaved").await?;
    let token = dave.token().await?;
    stage.fault(Fault::Kill { site: "frankfurt".into() }).await?;
    stage.say("frankfurt  Dave writes while cut off, without a barrier; then the site dies ✖");
    let mut dave: Client = stage.cluster.client(VIRGINIA).await?;
    let Err(error) = dave.attach(&token).await else {
        return Err(CheckFailed("a lost write went unnoticed".to_owned()));
    };
    check(error.code() == Some("LOST"), &format!("expected LOST, got {error}"))?;
    stage.say(&format!("virginia   attach: {error}"));
    stage.fault(Fault::Heal {}).await?;
    stage.fault(Fault::Restart { site: "frankfurt".into() }).await?;
    wait_until(async || Ok(dave.attach(&token).await.is_ok())).await?;
    check(dave.get("draft").await?.as_deref() == Some("unsaved"), "the draft did not return")?;
    stage.say("frankfurt  restarts with its data; now the token attaches, and the draft is there");
    Ok(())
}

impl Stage {
    fn title(&mut self, text: &str) {
        std::thread::sleep(self.pause);
        let chapter = self.chapter.fetch_add(1, Ordering::Relaxed) + 1;
        output!("\n{}", self.bold(&format!("{chapter}. {text}")));
        std::thread::sleep(self.pause / 2);
    }

    fn say(&self, text: &str) {
        let coloured = match text.split_once(' ') {
            Some((head, rest)) if self.colour && self.has_begun() && !head.is_empty() => {
                let code = match head {
                    "virginia" => 34,
                    "california" => 33,
                    "frankfurt" => 35,
                    "✂" | "✖" => 31,
                    _ => 32,
                };
                format!("\x1b[{code}m{head}\x1b[0m {rest}")
            }
            _ => text.to_owned(),
        };
        output!("   {coloured}");
        output::note(std::io::stdout().flush());
        std::thread::sleep(self.pause / 2);
    }

    /// Returns whether the first chapter has begun.
    fn has_begun(&self) -> bool {
        self.chapter.load(Ordering::Relaxed) > 0
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    async fn fault(&self, fault: Fault) -> Checked {
        Ok(self.cluster.inject(fault).await?)
    }
}

/// Polls until the condition holds, and returns the time that this took.
async fn wait_until(
    mut done: impl AsyncFnMut() -> Result<bool, Error>,
) -> Result<Duration, CheckFailed> {
    let started = Instant::now();
    while !done().await? {
        if started.elapsed() > Duration::from_secs(15) {
            return Err(CheckFailed("something did not arrive within 15 seconds".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(started.elapsed())
}

fn check(holds: bool, otherwise: &str) -> Checked {
    if holds { Ok(()) } else { Err(CheckFailed(otherwise.to_owned())) }
}

fn ms(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Returns the given percentile of the times; `None` without times.
fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len().checked_sub(1)? * percent / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demo_accepts_fast() {
        for arguments in [&["demo", "--fast"][..], &["demo", "message-groups", "--fast"]] {
            let command = DemoArgs::augment_args(clap::Command::new("demo"));
            let matches = command.try_get_matches_from(arguments).unwrap();
            assert!(matches.get_flag("fast"), "{arguments:?}");
        }
    }
}
