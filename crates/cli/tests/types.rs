//! Types of spaces that are declared, or changed, over data that exists.

mod common;

use common::{Folder, Inline, Up, keeping, solera, text};

const SPACES: [(&str, &str); 3] = [("counter", "c:"), ("set", "s:"), ("list", "l:")];

/// Returns the configuration of the spaces, with more settings for each.
fn config(level: &str, more: impl Fn(&str) -> String) -> String {
    let space = |(name, prefix): &(&str, &str)| {
        let more = more(name);
        format!("[[space]]\nname = '{name}'\nprefix = '{prefix}'\nlevel = '{level}'\n{more}\n")
    };
    "sites = 2\n".to_owned() + &SPACES.iter().map(space).collect::<String>()
}

/// Values from before the space had a type can be deleted, and the keys then used. Values of the
/// type cannot be deleted.
#[tokio::test]
async fn values_of_another_type_than_the_space_can_be_deleted() {
    delete_values_of_other_types("causal");
}

/// The same where every update is strong.
#[tokio::test]
async fn values_of_another_type_than_a_strong_space_can_be_deleted() {
    delete_values_of_other_types("linearizable");
}

fn delete_values_of_other_types(level: &str) {
    let folder = Folder::new();
    let file = folder.file("s.toml", &config(level, |_| String::new()));
    let data = folder.join("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    let mut client = up.inline();
    for line in [
        "SET c:number 5",
        "SET c:text five",
        "SADD c:set x",
        "SADD s:set x",
        "SET s:text x",
        "SOLERA.PUSH l:list x",
        "SET l:text x",
    ] {
        assert!(!client.ask(line).starts_with('-'), "{line}");
    }
    up.kill();
    folder.file("s.toml", &config(level, |name| format!("type = '{name}'")));
    let up = Up::again(up.port, &arguments);
    let mut client = up.inline();
    let asked = |client: &mut Inline, line: &str, expected: &str| {
        let reply = client.ask(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    };
    asked(&mut client, "INCR c:text", "-ERR value is not an integer");
    for (key, refused) in [("c:number", true), ("c:none", true), ("s:set", true), ("l:list", true)]
        .into_iter()
        .chain(["c:text", "c:set", "s:text", "l:text"].map(|key| (key, false)))
    {
        let expected = if refused { "-ERR DEL cannot change" } else { ":1" };
        asked(&mut client, &format!("DEL {key}"), expected);
    }
    for line in ["INCR c:text", "INCR c:set", "SADD s:text x", "SOLERA.PUSH l:text x"] {
        asked(&mut client, line, ":1");
    }
    asked(&mut client, "DEL c:text", "-ERR DEL cannot change");
    asked(&mut client, "INCR c:number", ":6");
    asked(&mut client, "SCARD s:set", ":1");
    asked(&mut client, "SOLERA.NEWEST l:list 1", "x");
    for (line, expected) in [
        ("MULTI", "+OK"),
        ("SET c:number 1", "-ERR SET cannot change"),
        ("DISCARD", "+OK"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SET c:number 1", "-ERR SET cannot change"),
        ("SOLERA.ABORT", "+OK"),
        ("SOLERA.READ c:number AT linearizable", "6"),
    ] {
        asked(&mut client, line, expected);
    }
}

/// A node does not start with other bounds over data, and names the space and what has changed.
#[tokio::test]
async fn a_changed_bound_over_data_is_named_with_its_space() {
    let folder = Folder::new();
    let space = |name: &str, settings: &str| {
        format!("[[space]]\nname = '{name}'\nprefix = '{name}:'\nlevel = 'causal'\n{settings}\n")
    };
    let counter = "type = 'counter'\nerror = '5%'";
    let file = folder.file("s.toml", &format!("sites = 2\n{}", space("views", counter)));
    let data = folder.join("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    assert_eq!(up.inline().ask("INCR views:a"), ":1");
    up.kill();
    let of_views = "the data does not fit the configuration: the space with prefix 'views:' had the \
                    setting `error` for counters when the data was written, and has ";
    let of_more = "the data does not fit the configuration: the space with prefix 'more:' had no \
                   bound when the data was written, and has the setting `error` for counters now";
    for (spaces, expected) in [
        (space("views", "type = 'counter'"), format!("{of_views}no bound now.")),
        (
            space("views", "type = 'pool'"),
            format!("{of_views}the type `bounded-counter` or `pool`"),
        ),
        (
            space("views", "type = 'set'\nerror = '5%'"),
            format!("{of_views}the setting `error` for sets"),
        ),
        (space("views", counter) + &space("more", counter), of_more.to_owned()),
    ] {
        folder.file("s.toml", &format!("sites = 2\n{spaces}"));
        let done = solera(&[&["up", "--port", &up.port.to_string()], &arguments[..]].concat());
        let error = text(&done.stderr);
        assert!(!done.status.success() && error.contains(&expected), "{error}");
        assert!(!error.contains("the record at byte"), "{error}");
    }
    folder.file("s.toml", &format!("sites = 2\n{}", space("views", &counter.replace('5', "7"))));
    let up = Up::again(up.port, &arguments);
    assert_eq!(up.inline().ask("GET views:a"), "1");
}
