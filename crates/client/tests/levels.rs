//! Every cell of the table of commands and levels in `docs/reference/commands.md`: outside of
//! transactions, at a site that is cut off, and in transactions of each kind.

use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};

const COMMANDS: &str = include_str!("../../../docs/reference/commands.md");

/// The levels of the columns, each with a space whose prefix is the level's name.
const LEVELS: [&str; 6] = ["linearizable", "por", "pcpsi", "causal", "speculative", "eventual"];

fn cluster() -> Embedded {
    let space = |level: &&str| {
        // The keys of level pcpsi have their home at another site than the clients of this test.
        let home = if *level == "pcpsi" { "home = 'california'\n" } else { "" };
        format!("[[space]]\nname = '{level}'\nprefix = '{level}:'\nlevel = '{level}'\n{home}")
    };
    let spaces: String = LEVELS.iter().map(space).collect();
    Embedded::with(ClusterSpec::parse("config", &spaces, Overrides::default()).unwrap()).unwrap()
}

/// A command in the table, with the text of its cell for a level.
#[derive(Clone)]
struct Cell {
    command: String,
    level: &'static str,
    text: String,
}

impl Cell {
    /// Returns the words of the command for a key that was never used.
    fn words(&self, place: &str) -> Vec<String> {
        let Cell { command, level, .. } = self;
        let rest = match command.as_str() {
            "DEL" | "EXISTS" | "TYPE" | "GET" | "MGET" | "INCR" | "DECR" | "SMEMBERS" | "SCARD"
            | "HGETALL" => "",
            "INCRBY" | "DECRBY" => "2",
            "SET" | "SETNX" | "MSET" | "SADD" | "SREM" | "SISMEMBER" | "HGET" | "HMGET"
            | "HDEL" | "SOLERA.PUSH" => "x",
            "HSET" => "x y",
            "HINCRBY" => "x 3",
            "SOLERA.NEWEST" => "5",
            other => panic!("this test does not know the command {other}"),
        };
        let key = format!("{level}:{command}:{place}");
        [command, key.as_str()].into_iter().chain(rest.split_whitespace()).map(Into::into).collect()
    }

    fn is_update(&self) -> bool {
        !matches!(
            self.command.as_str(),
            "EXISTS"
                | "TYPE"
                | "GET"
                | "MGET"
                | "SMEMBERS"
                | "SISMEMBER"
                | "SCARD"
                | "HGET"
                | "HMGET"
                | "HGETALL"
                | "SOLERA.NEWEST"
        )
    }
}

/// Returns the cells of the table.
fn cells() -> Vec<Cell> {
    let (_, table) = COMMANDS.split_once("<!-- generated: commands on keys -->").unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut all = Vec::new();
    for row in rows {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let command = columns[1].split('`').nth(1).unwrap();
        for (level, text) in LEVELS.into_iter().zip(&columns[2..]) {
            let (command, text) = (command.to_owned(), (*text).to_owned());
            all.push(Cell { command, level, text });
        }
    }
    assert!(all.len() >= 25 * LEVELS.len(), "{}", all.len());
    all
}

async fn run(client: &mut Client, words: &[String]) -> Result<Value, Error> {
    client.command(words).await
}

/// Runs the command as the only one of a transaction.
async fn within(client: &mut Client, begin: &[&str], words: &[String]) -> Result<Value, Error> {
    client.command(begin).await?;
    let done = run(client, words).await;
    let end = if done.is_ok() { "SOLERA.COMMIT" } else { "SOLERA.ABORT" };
    let ended = client.command(&[end]).await;
    match done {
        Ok(_) => ended,
        Err(error) => Err(error),
    }
}

async fn in_multi(client: &mut Client, words: &[String]) -> Result<Value, Error> {
    client.command(&["MULTI"]).await?;
    let queued = run(client, words).await;
    let done = client.command(&["EXEC"]).await;
    queued?;
    match done? {
        Value::Array(mut answers) => match answers.pop() {
            Some(Value::Error(text)) => Err(Error::server(&text)),
            answer => Ok(answer.unwrap_or(Value::Null)),
        },
        other => panic!("EXEC answered {other:?}"),
    }
}

/// Asserts that a command was executed, or refused with an error that names `named`.
fn expect(cell: &Cell, place: &str, accepted: bool, named: &[&str], done: Result<Value, Error>) {
    let at = format!("{} at level {} ({}), {place}", cell.command, cell.level, cell.text);
    match done {
        Ok(answer) => assert!(accepted, "{at}: {answer:?}"),
        Err(error) => {
            assert!(!accepted, "{at}: {error}");
            let text = error.to_string();
            assert!(named.iter().all(|name| text.contains(name)), "{at}: {text}");
        }
    }
}

#[tokio::test]
async fn every_command_is_executed_as_the_table_of_levels_says() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    for cell in cells() {
        let (text, level) = (cell.text.as_str(), cell.level);
        let known = [
            "causal",
            "strong",
            "at the home",
            "at the site",
            "eventual",
            "weak",
            "only in strong transactions",
            "refused",
        ];
        assert!(known.contains(&text), "{}: {text}", cell.command);
        let is_at = |all: &[&str]| all.contains(&text);
        let works = !is_at(&["only in strong transactions", "refused"]);
        expect(&cell, "alone", works, &[], run(&mut client, &cell.words("alone")).await);
        expect(&cell, "in MULTI", works, &[], in_multi(&mut client, &cell.words("multi")).await);
        let done = within(&mut client, &["SOLERA.BEGIN"], &cell.words("causal")).await;
        expect(&cell, "in a causal transaction", is_at(&["causal", "eventual"]), &[], done);
        let done = within(&mut client, &["SOLERA.BEGIN", "STRONG"], &cell.words("strong")).await;
        let refused =
            ["pcpsi", "speculative"].contains(&level) || (level == "eventual" && cell.is_update());
        expect(&cell, "in a strong transaction", !refused, &[level], done);
        let done = within(&mut client, &["SOLERA.BEGIN", "PCPSI"], &cell.words("pcpsi")).await;
        expect(&cell, "in a transaction of level pcpsi", level == "pcpsi", &[level], done);
    }
}

/// Only commands that need other sites fail at a site that is cut off.
#[tokio::test]
async fn commands_that_need_no_other_site_work_at_a_site_that_is_cut_off() {
    let cluster = cluster();
    for other in ["2", "3"] {
        cluster.inject(Fault::Cut { a: "1".into(), b: other.into() }).await.unwrap();
    }
    let mut waiting = tokio::task::JoinSet::new();
    for cell in cells() {
        let mut client = cluster.client(0).await.unwrap();
        waiting.spawn(async move {
            let done = run(&mut client, &cell.words("cut")).await;
            (cell, done)
        });
    }
    for (cell, done) in waiting.join_all().await {
        let needs_others = ["strong", "at the home", "only in strong transactions", "refused"];
        let works = !needs_others.contains(&cell.text.as_str());
        expect(&cell, "at a site that is cut off", works, &[], done);
    }
}
