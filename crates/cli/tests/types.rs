//! Types of spaces that are declared, or changed, over data that exists.

mod common;

use common::{Folder, Inline, Up, keeping};

const SPACES: [(&str, &str); 3] = [("counter", "c:"), ("set", "s:"), ("list", "l:")];

/// Returns the configuration of the spaces, with more settings for each.
fn config(more: impl Fn(&str) -> String) -> String {
    let space = |(name, prefix): &(&str, &str)| {
        let more = more(name);
        format!("[[space]]\nname = '{name}'\nprefix = '{prefix}'\nlevel = 'causal'\n{more}\n")
    };
    "sites = 2\n".to_owned() + &SPACES.iter().map(space).collect::<String>()
}

/// Values from before the space had a type can be deleted, and the keys then used. Values of the
/// type cannot be deleted.
#[tokio::test]
async fn values_of_another_type_than_the_space_can_be_deleted() {
    let folder = Folder::new();
    let file = folder.file("s.toml", &config(|_| String::new()));
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
    folder.file("s.toml", &config(|name| format!("type = '{name}'")));
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
}
