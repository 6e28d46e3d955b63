//! `solera demo message-groups`: compares a program whose stores have several levels with the same
//! program at the strongest level.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Overrides};
use solera_language::compile::compile;
use solera_language::{explain, render};
use solera_random::Random;

use super::{CheckFailed, Checked, check, percentile};
use crate::progress::Progress;

const SOURCE: &str = include_str!("../../../../examples/message_groups.mixt");
const CONTEST: &str = include_str!("../../../../examples/contest_rejected.mixt");
const FILE: &str = "examples/message_groups.mixt";

const CONFIG: &str = include_str!("../../../../examples/message_groups.toml");

/// Arguments that bind every store of the program to the linearizable space.
const STRONG: [&str; 4] = ["BIND", "mail=directory", "BIND", "audit=directory"];

const SITES: usize = 3;
const CLIENTS_PER_SITE: usize = 4;
const GROUPS: usize = 12;
/// The paper's mix of calls (§8), in percent.
const MIX: [(&str, u64); 4] = [("inbox", 56), ("post", 20), ("join", 18), ("create_user", 6)];

/// Runs the demo; fails if a check does.
pub(super) fn main(seconds: u64) -> ExitCode {
    super::exit_code(super::in_runtime(run(Duration::from_secs(seconds.max(1)))))
}

async fn run(time: Duration) -> Checked {
    let compiled = compile(SOURCE);
    if compiled.program.is_none() {
        return Err(CheckFailed(render::render(&compiled.diagnostics, FILE, SOURCE, false)));
    }
    output!(
        "The compiler rejects programs that mix levels unsafely, such as examples/contest_rejected.mixt:\n"
    );
    let contest = compile(CONTEST);
    check(contest.program.is_none(), "the compiler does not reject the contest")?;
    let first = contest.diagnostics.get(..1).unwrap_or_default();
    for line in render::render(first, "contest_rejected.mixt", CONTEST, false).lines() {
        output!("  {line}");
    }
    output!(
        "\n{FILE} passes the check: no causal or eventual value influences a linearizable one."
    );
    output!("How `post` runs (solera explain shows all of it):\n");
    let mut transactions = explain::transactions(&compiled, SOURCE);
    transactions.retain(|transaction| transaction.name == "post");
    for line in explain::text(&transactions).lines() {
        output!("  {line}");
    }
    output!(
        "\nThree sites: virginia ─61 ms─ california, virginia ─90 ms─ frankfurt, california ─147 ms─ \
         frankfurt,\nwith {CLIENTS_PER_SITE} clients each, for {} s per variant. The mix of calls is the paper's:",
        time.as_secs()
    );
    let mix: Vec<_> = MIX.iter().map(|(name, part)| format!("{part}% {name}")).collect();
    output!("{}.\n", mix.join(", "));
    let measuring = |variant: &'static str| {
        let seconds = time.as_secs();
        Progress::begin(move || format!("measuring {variant} for {seconds} s"))
    };
    let progress = measuring("mixed levels");
    let mixed = measure(&[], time).await?;
    drop(progress);
    let progress = measuring("all linearizable");
    let strong = measure(&STRONG, time).await?;
    drop(progress);
    table(&mixed, &strong, time);
    Ok(())
}

/// Results of a load.
#[derive(Default)]
struct Measured {
    /// Latencies of the successful calls, by transaction.
    done: BTreeMap<&'static str, Vec<Duration>>,
    /// Number of calls that failed with ABORTED or UNAVAILABLE.
    failed: u64,
}

impl Measured {
    fn take(&mut self, other: Measured) {
        for (name, times) in other.done {
            self.done.entry(name).or_default().extend(times);
        }
        self.failed += other.failed;
    }

    fn count(&self) -> usize {
        self.done.values().map(Vec::len).sum()
    }

    fn per_second(&self, time: Duration) -> f64 {
        self.count() as f64 / time.as_secs_f64()
    }

    /// Returns the given percentile of a transaction's latencies.
    fn percentile(&self, name: &str, percent: usize) -> Option<Duration> {
        percentile(self.done.get(name)?, percent)
    }
}

async fn measure(bind: &[&str], time: Duration) -> Result<Measured, CheckFailed> {
    let over = Overrides { wan: Some("aws".into()), ..Overrides::default() };
    let spec = ClusterSpec::parse("examples/message_groups.toml", CONFIG, over);
    let cluster = Embedded::with(spec.map_err(|error| CheckFailed(error.to_string()))?)?;
    let mut first = cluster.client(0).await?;
    let mut load = vec!["SOLERA.MODULE", "LOAD", "groups", SOURCE];
    load.extend(bind);
    first.command(&load).await?;
    let mut groups = Vec::new();
    for number in 0..GROUPS {
        let title = format!("group {number}");
        groups.push(text(call(&mut first, &["create_group", &title]).await?)?);
    }
    let token = first.token().await?;
    let mut clients = Vec::new();
    for number in 0..SITES * CLIENTS_PER_SITE {
        let mut client = cluster.client(number % SITES).await?;
        client.attach(&token).await?;
        clients.push(tokio::spawn(work(client, number as u64, groups.clone(), time)));
    }
    let mut measured = Measured::default();
    let mut joined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for client in clients {
        let (one, joins) = client.await.map_err(|error| CheckFailed(error.to_string()))??;
        measured.take(one);
        for (group, user) in joins {
            joined.entry(group).or_default().push(user);
        }
    }
    // Every acknowledged join must be visible: the linearizable store guarantees this.
    for (group, users) in joined {
        let members = first.hget(&group, "members").await?.unwrap_or_default();
        for user in users {
            let (_, key) = user.split_once(':').unwrap_or_default();
            check(members.contains(key), &format!("{user} has joined {group} and is no member"))?;
        }
    }
    Ok(measured)
}

/// Runs a closed-loop client; returns its results, and the joins that succeeded.
async fn work(
    mut client: Client,
    number: u64,
    groups: Vec<String>,
    time: Duration,
) -> Result<(Measured, Vec<(String, String)>), CheckFailed> {
    let mut measured = Measured::default();
    let mut joins = Vec::new();
    let mut user = text(call(&mut client, &["create_user", &format!("user {number}")]).await?)?;
    let mut random = Random::new(number);
    let began = Instant::now();
    let mut turn = 0;
    while began.elapsed() < time {
        turn += 1;
        let drawn = random.draw();
        let mut part = drawn % 100;
        let chosen = MIX.iter().find(|(_, share)| {
            let found = part < *share;
            part = part.saturating_sub(*share);
            found
        });
        let name = chosen.map_or("inbox", |(name, _)| *name);
        let group = groups[(drawn >> 32) as usize % groups.len()].clone();
        let message = format!("{number}/{turn}");
        let words: Vec<&str> = match name {
            "inbox" => vec![name, &user],
            "post" => vec![name, &group, "audit:all", &message],
            "join" => vec![name, &group, &user],
            _ => vec![name, &message],
        };
        let started = Instant::now();
        match call(&mut client, &words).await {
            Ok(reply) => {
                measured.done.entry(name).or_default().push(started.elapsed());
                match name {
                    "join" => joins.push((group, user.clone())),
                    "create_user" => user = text(reply)?,
                    _ => {}
                }
            }
            Err(error) if matches!(error.code(), Some("ABORTED" | "UNAVAILABLE")) => {
                measured.failed += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((measured, joins))
}

async fn call(client: &mut Client, words: &[&str]) -> Result<Value, Error> {
    let name = format!("groups.{}", words[0]);
    let all: Vec<&str> =
        ["SOLERA.CALL", &name].into_iter().chain(words[1..].iter().copied()).collect();
    client.command(&all).await
}

fn text(value: Value) -> Result<String, CheckFailed> {
    match value {
        Value::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        other => Err(CheckFailed(format!("a handle was expected, not {other:?}"))),
    }
}

fn table(mixed: &Measured, strong: &Measured, time: Duration) {
    output!("                         mixed                all linearizable");
    output!("  transaction       median     p99          median     p99");
    let shown = |time: Option<Duration>| time.map_or("-".to_owned(), super::ms);
    for (name, _) in MIX {
        let of = |one: &Measured| {
            let (half, most) = (one.percentile(name, 50), one.percentile(name, 99));
            format!("{:>9} {:>9}", shown(half), shown(most))
        };
        output!("  {name:<13} {}    {}", of(mixed), of(strong));
    }
    let (a, b) = (mixed.per_second(time), strong.per_second(time));
    output!("  {:<13} {a:>17.1}/s    {b:>17.1}/s", "all calls");
    output!("  {:<13} {:>19}    {:>19}", "failed", mixed.failed, strong.failed);
    output!(
        "\nThe mixed variant completes {:.1} times as many calls. Every acknowledged join was found.",
        a / b
    );
    output!("Both clusters, their clients and their network share this computer.");
}
