//! Tests a space of level `speculative` through the user's interfaces.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Folder, Inline, Up, agree, eventually, field_of, http, keeping, ok, solera, text};
use solera::{Error, Value};
use solera_node::hash_password;

/// Configuration with two workers per site, of which one runs the space.
const SPACES: &str = "\
workers = 2
[[space]]
name = 'stock'
prefix = 's:'
level = 'speculative'
strong = ['DECRBY']
[[space]]
name = 'bank'
prefix = 'b:'
level = 'linearizable'
[[space]]
name = 'homed'
prefix = 'p:'
level = 'pcpsi'
";

/// Configuration with a space whose results show no strong operation before it is committed.
const ACYCLIC: &str = "\
[[space]]
name = 'stock'
prefix = 's:'
level = 'speculative'
acyclic = true
";

fn sites(up: &Up) -> [Inline; 3] {
    [1, 2, 3].map(|site| Inline::at(up.address(site)))
}

fn state(client: &mut Inline) -> String {
    client.ask("SOLERA.STATE stock")
}

#[test]
fn commands_are_weak_unless_the_space_names_them() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, mut three] = sites(&up);
    assert_eq!(one.ask("SET s:a 10"), "+OK");
    assert_eq!(one.ask("INCR s:a"), ":11");
    assert_eq!(one.ask("MSET s:b 1 s:c 2"), "+OK");
    assert_eq!(one.ask("MGET s:a s:b s:c s:d"), "11 1 2 nil");
    assert_eq!(one.ask("SADD s:set x y"), ":2");
    assert_eq!(one.ask("HSET s:hash f 1"), ":1");
    assert_eq!(one.ask("SET s:a z NX"), "nil");
    // A strong command takes the weak ones before it along, and its result is final.
    assert_eq!(one.ask("DECRBY s:a 1"), ":10");
    let token = one.ask("SOLERA.TOKEN");
    assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(two.ask("MGET s:a s:b s:c"), "10 1 2");
    assert_eq!(two.ask("SMEMBERS s:set"), "x y");
    assert_eq!(two.ask("DECRBY s:a 4"), ":6");
    assert_eq!(two.ask("DEL s:b s:c s:d"), ":2");
    assert_eq!(two.ask("SOLERA.BARRIER 10000"), "+OK");
    let token = two.ask("SOLERA.TOKEN");
    assert_eq!(three.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(three.ask("GET s:a"), "6");
    assert_eq!(three.ask("EXISTS s:a s:b"), ":1");
    assert_eq!(three.ask("WAIT 1 10000"), ":1");
    assert_eq!(
        three.ask("INCR s:set"),
        "-WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    agree(&mut [one, two, three]);
}

#[test]
fn multi_is_one_operation_and_watch_makes_it_strong() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, _] = sites(&up);
    assert_eq!(one.ask("MULTI"), "+OK");
    for line in ["INCR s:a", "SADD s:a x", "INCR s:b", "PING"] {
        assert_eq!(one.ask(line), "+QUEUED");
    }
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(one.ask("EXEC"), format!(":1 {wrong} :1 +PONG"));
    assert_eq!(one.ask("WATCH s:a"), "+OK");
    assert_eq!(one.ask("MULTI"), "+OK");
    assert_eq!(one.ask("INCRBY s:a 5"), "+QUEUED");
    assert_eq!(one.ask("EXEC"), ":6");
    // Another session changes the watched key.
    assert_eq!(one.ask("WATCH s:a"), "+OK");
    let token = one.ask("SOLERA.TOKEN");
    assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(two.ask("DECRBY s:a 2"), ":4");
    assert_eq!(one.ask("MULTI"), "+OK");
    assert_eq!(one.ask("INCRBY s:a 5"), "+QUEUED");
    assert_eq!(one.ask("EXEC"), "nil");
    assert_eq!(two.ask("GET s:a"), "4");
    let log = one.ask("SOLERA.LOG stock 1 100");
    assert!(!log.contains("INCRBY s:a 5 strong") && log.ends_with("strong "), "{log}");
    assert_eq!(one.ask("WATCH s:a"), "+OK");
    assert_eq!(one.ask("UNWATCH"), "+OK");
    assert_eq!(one.ask("INCR s:a"), ":5");
}

#[test]
fn an_acyclic_space_shows_a_strong_operation_when_it_is_committed() {
    for (spaces, shown) in [(SPACES, "3"), (ACYCLIC, "nil")] {
        let up = Up::configured(spaces, "");
        let [mut one, mut two, _] = sites(&up);
        ok(&up.fault(&["cut", "1", "2"]));
        ok(&up.fault(&["cut", "1", "3"]));
        let strong = one.ask("SOLERA.CALL STRONG INCRBY s:n 3");
        assert_eq!(field_of(&strong, "tentative"), "3");
        let ticket = field_of(&strong, "ticket");
        let read = one.ask("SOLERA.CALL WEAK GET s:n");
        assert_eq!(read, shown, "{spaces}");
        assert_eq!(one.ask("SOLERA.CALL WEAK INCRBY s:m 1"), ":1");
        ok(&up.fault(&["heal"]));
        assert_eq!(two.ask(&format!("SOLERA.STABLE {ticket} 20000")), ":3");
        let token = two.ask("SOLERA.TOKEN");
        assert_eq!(one.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
        assert_eq!(one.ask("GET s:n"), "3");
    }
}

#[test]
fn calls_choose_the_level_and_give_tickets() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, three] = sites(&up);
    assert_eq!(one.ask("SOLERA.CALL INCRBY s:n 5"), ":5");
    assert_eq!(one.ask("SOLERA.CALL WEAK INCRBY s:n 2"), ":7");
    let strong = one.ask("SOLERA.CALL STRONG INCRBY s:n 3");
    assert_eq!(field_of(&strong, "tentative"), "10");
    let ticket = field_of(&strong, "ticket");
    for client in [&mut one, &mut two] {
        assert_eq!(client.ask(&format!("SOLERA.STABLE {ticket}")), ":10");
    }
    let weak = two.ask("SOLERA.CALL TRACK WEAK MSET s:x 1 s:y 2");
    assert!(weak.ends_with("tentative +OK +OK"), "{weak}");
    let ticket = field_of(&weak, "ticket");
    assert_eq!(one.ask(&format!("SOLERA.STABLE {ticket} 10000")), "+OK +OK");
    let read = one.ask("SOLERA.CALL TRACK WEAK GET s:n");
    assert_eq!(read, "ticket nil tentative 10");
    let unknown = one.ask("SOLERA.STABLE 2-9-9 50");
    assert!(unknown.starts_with("-TIMEOUT the operation is not final here yet"), "{unknown}");
    let unknown = one.ask("SOLERA.STABLE 0-9-9 0");
    let no_ticket = "-NOTICKET no operation has the ticket";
    assert_eq!(unknown, format!("{no_ticket} 0-9-9: site virginia has never given it"));
    assert!(one.ask("SOLERA.STABLE 3-1-1").starts_with(&format!("{no_ticket} 3-1-1")));
    assert!(one.ask("SOLERA.STABLE 3-1").starts_with("-ERR '3-1' is not a ticket"));
    let elsewhere = one.ask("SOLERA.CALL WEAK INCR b:n");
    assert!(
        elsewhere.starts_with("-ERR 'b:n' is in space 'bank', and SOLERA.CALL runs"),
        "{elsewhere}"
    );
    assert!(one.ask("SOLERA.CALL WEAK PING").contains("and commands on keys"));
    assert_eq!(one.ask("SOLERA.CALL DECRBY s:n 4"), ":6");
    let log = one.ask("SOLERA.LOG stock 1 10");
    assert!(log.contains("strong DECRBY s:n 4"), "{log}");
    assert!(log.contains("strong INCRBY s:n 5"), "{log}");
    assert!(log.contains("weak INCRBY s:n 2"), "{log}");
    assert!(one.ask("SOLERA.LOG bank 1 10").contains("is of level linearizable, not of level"));
    agree(&mut [one, two, three]);
}

/// Clients that speak RESP3 get results when they are final, and revised ones.
#[test]
fn results_are_pushed() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, mut three] = sites(&up);
    one.ask("HELLO 3");
    let called = one.ask("SOLERA.CALL STRONG INCRBY s:n 3");
    let ticket = field_of(&called, "ticket");
    assert_eq!(one.reply(), format!("solera.stable {ticket} :3"));
    assert_eq!(one.ask("PING"), "+PONG");
    // A site that is cut off answers weakly, and others go on.
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    let set = field_of(&two.ask("SOLERA.CALL STRONG SET s:n 100"), "ticket");
    assert_eq!(two.ask(&format!("SOLERA.STABLE {set}")), "+OK");
    let called = one.ask("SOLERA.CALL TRACK STRONG INCRBY s:n 1");
    assert_eq!(field_of(&called, "tentative"), "4");
    let ticket = field_of(&called, "ticket");
    let weak = one.ask("SOLERA.CALL WEAK INCRBY s:n 1");
    assert_eq!(weak, ":5");
    let late = one.ask(&format!("SOLERA.STABLE {ticket} 100"));
    assert!(late.starts_with("-TIMEOUT"), "{late}");
    // After a while, the site adds an operation without effect.
    let tentative = field_of(&state(&mut one), "tentative");
    assert!(["2", "3"].contains(&&*tentative), "{tentative}");
    let at_risk = one.ask("SOLERA.AT-RISK");
    let counted = ["transactions :2 keys s:n", "transactions :3 keys s:n"];
    assert!(counted.iter().any(|counted| at_risk.contains(counted)), "{at_risk}");
    assert!(at_risk.ends_with(" session virginia"), "{at_risk}");
    assert_eq!(one.ask("SOLERA.CALL WEAK SET s:other 1"), "+OK");
    let at_risk = one.ask("SOLERA.AT-RISK COUNT 3");
    assert!(at_risk.contains(" keys s:other s:n session"), "each key once: {at_risk}");
    assert!(one.ask("SOLERA.BARRIER 100").starts_with("-TIMEOUT"));
    let added = field_of(&two.ask("SOLERA.CALL STRONG INCRBY s:n 1"), "ticket");
    assert_eq!(two.ask(&format!("SOLERA.STABLE {added}")), ":101");
    ok(&up.fault(&["heal"]));
    // The result may be revised once or twice. The cause is the last of the other operations that
    // it counts: of two operations that set the key, the second one hides the first one.
    let mut revised = Vec::new();
    let stable = loop {
        let push = one.reply();
        match push.strip_prefix(&format!("solera.revised {ticket} ")) {
            Some(revision) => revised.push(revision.to_owned()),
            None => break push,
        }
    };
    assert!(!revised.is_empty(), "it was 4 at first");
    let possible = [format!(":101 {set}"), format!(":102 {added}")];
    assert!(revised.iter().all(|it| possible.contains(it)), "{revised:?}, not {possible:?}");
    // A result that does not change is not revised.
    let called = one.ask("SOLERA.CALL TRACK WEAK INCRBY s:m 1");
    let ticket_of_m = field_of(&called, "ticket");
    assert_eq!(one.reply(), format!("solera.stable {ticket_of_m} :1"));
    assert_eq!(stable, format!("solera.stable {ticket} :102"));
    assert_eq!(one.ask("SOLERA.BARRIER 10000"), "+OK");
    assert!(one.ask("SOLERA.AT-RISK").ends_with(" session "), "all of it is final");
    assert_eq!(three.ask(&format!("SOLERA.STABLE {ticket}")), ":102");
    agree(&mut [one, two, three]);
}

#[test]
fn keys_of_other_levels_are_no_part_of_its_transactions() {
    let up = Up::configured(SPACES, "");
    let mut client = up.inline();
    for (line, level) in [
        (
            "MGET s:a b:a",
            "'s:a' (space 'stock') is of level speculative, and 'b:a' (space 'bank') is not",
        ),
        (
            "MGET a s:a",
            "'s:a' (space 'stock') is of level speculative, and 'a' (space 'default') is not",
        ),
        (
            "MSET p:a 1 s:a 1",
            "'p:a' (space 'homed') is of level pcpsi, and 's:a' (space 'stock') is not",
        ),
        (
            "WATCH s:a b:a",
            "'s:a' (space 'stock') is of level speculative, and 'b:a' (space 'bank') is not",
        ),
    ] {
        assert_eq!(client.ask(line), format!("-ERR {level}: one transaction cannot span both"));
    }
    for level in ["CAUSAL", "STRONG", "PCPSI"] {
        assert_eq!(client.ask(&format!("SOLERA.BEGIN {level}")), "+OK");
        let refused = client.ask("INCR s:a");
        assert!(
            refused.contains("such keys take part in no open transaction; use MULTI"),
            "{refused}"
        );
        assert!(client.ask("SOLERA.COMMIT").starts_with("-EXECABORT"));
        assert_eq!(client.ask(&format!("SOLERA.BEGIN {level}")), "+OK");
        assert!(client.ask("SOLERA.CALL INCR s:a").starts_with("-ERR"), "it would run outside");
        assert!(client.ask("SOLERA.COMMIT").starts_with("-EXECABORT"));
    }
    for (first, second) in
        [("INCR s:a", "INCR b:a"), ("INCR b:a", "INCR s:a"), ("INCR p:a", "INCR s:a")]
    {
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask(first), "+QUEUED");
        let refused = client.ask(second);
        assert!(refused.contains("one transaction cannot span both"), "{refused}");
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    }
    for (watched, used) in [("s:a", "b:a"), ("b:a", "s:a"), ("p:a", "s:a"), ("s:a", "p:a")] {
        assert_eq!(client.ask(&format!("WATCH {watched}")), "+OK");
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask(&format!("INCR {used}")), "+QUEUED");
        let refused = client.ask("EXEC");
        assert!(
            refused.contains("one transaction cannot span both"),
            "{watched} {used}: {refused}"
        );
    }
    assert_eq!(client.ask("WATCH s:a"), "+OK");
    let refused = client.ask("SOLERA.BEGIN STRONG");
    assert!(refused.contains("EXEC validates them"), "{refused}");
    assert_eq!(client.ask("UNWATCH"), "+OK");
    let read = client.ask("SOLERA.READ s:a AT causal");
    assert!(read.starts_with("-ERR"), "{read}");
    assert_eq!(client.ask("MGET s:a b:a"), client.ask("MGET s:a b:a"), "nothing was done");
    assert_eq!(client.ask("GET s:a"), "nil");
    assert_eq!(client.ask("SOLERA.LEVEL s:a"), "speculative");
    assert_eq!(client.ask("DBSIZE"), ":0");
}

#[test]
fn rights_apply_to_the_commands_and_results_of_calls() {
    let user = |name: &str, rest: &str| {
        let hash = hash_password(b"pw");
        format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\n{rest}\n")
    };
    let users = user("default", "commands = ['+@all']\nkeys = ['*']")
        + &user("bob", "commands = ['+@all', '-@admin', '-decr']\nkeys = ['s:own:*', '%W~s:in:*']")
        + &user("ann", "commands = ['+solera.stable', '+auth']\nkeys = ['%R~s:*']")
        + &user("eve", "commands = ['+@all', '-@admin']\nkeys = ['s:eve:*']");
    let up = Up::configured(SPACES, &users);
    let [mut bob, mut eve, mut admin] = sites(&up);
    assert_eq!(admin.ask("AUTH pw"), "+OK");
    assert!(bob.ask("SOLERA.CALL INCR s:own:1").starts_with("-NOAUTH"));
    assert_eq!(bob.ask("AUTH bob pw"), "+OK");
    assert_eq!(eve.ask("AUTH eve pw"), "+OK");
    let called = bob.ask("SOLERA.CALL STRONG INCR s:own:1");
    let ticket = field_of(&called, "ticket");
    assert_eq!(bob.ask(&format!("SOLERA.STABLE {ticket}")), ":1");
    let refused = eve.ask(&format!("SOLERA.STABLE {ticket}"));
    assert!(refused.starts_with("-NOPERM"), "{refused}");
    for line in
        ["SOLERA.CALL DECR s:own:1", "SOLERA.CALL INCR s:eve:1", "SOLERA.CALL WEAK GET s:in:1"]
    {
        let refused = bob.ask(line);
        assert!(refused.starts_with("-NOPERM"), "{line}: {refused}");
    }
    assert_eq!(bob.ask("SOLERA.CALL WEAK SET s:in:1 x"), "+OK");
    assert!(bob.ask("SOLERA.LOG stock 1 1").starts_with("-NOPERM"));
    // Rights travel with calls of transactions.
    assert_eq!(load(&mut admin, "shop", SHOP), "+OK");
    let token = admin.ask("SOLERA.TOKEN");
    for client in [&mut bob, &mut eve] {
        assert_eq!(client.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    }
    assert_eq!(bob.ask("SOLERA.CALL WEAK shop.left own:1"), ":1");
    assert_eq!(eve.ask("SOLERA.CALL shop.add eve:1 5"), ":5");
    // A user without GET does not learn results by tickets.
    assert_eq!(eve.ask("AUTH ann pw"), "+OK");
    assert!(eve.ask(&format!("SOLERA.STABLE {ticket}")).starts_with("-NOPERM"));
    assert_eq!(eve.ask("AUTH eve pw"), "+OK");
    for line in ["SOLERA.CALL WEAK shop.left eve:1", "SOLERA.CALL STRONG shop.add eve:1 1"] {
        let refused = bob.ask(line);
        assert!(refused.contains("NOPERM"), "{line}: {refused}");
    }
    let called = bob.ask("SOLERA.CALL STRONG shop.add own:2 1");
    let ticket = field_of(&called, "ticket");
    assert_eq!(bob.ask(&format!("SOLERA.STABLE {ticket}")), ":1");
    assert_eq!(bob.ask("SOLERA.CALL shop.add own:2 -1"), ":0");
    assert!(eve.ask(&format!("SOLERA.STABLE {ticket}")).starts_with("-NOPERM"));
    assert_eq!(bob.ask("MULTI"), "+OK");
    assert!(bob.ask("DECR s:own:1").starts_with("-NOPERM"));
    assert!(bob.ask("EXEC").starts_with("-EXECABORT"));
}

/// Loads a module whose store is the space.
fn load(client: &mut Inline, name: &str, source: &str) -> String {
    client.ask(&format!(
        "SOLERA.MODULE LOAD {name} \"{}\" REPLACE BIND shop=stock",
        source.replace('"', "\\\"")
    ))
}

const SHOP: &str = "store shop : speculative; \
    transaction add(n: handle<counter> in shop, count: int) -> int { \
        if n.value() + count < 0 { abort \"sold out\"; } n.add(count); return n.value(); } \
    transaction left(n: handle<counter> in shop) -> int { return n.value(); }";

#[test]
fn transactions_of_modules_are_operations_of_the_space() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, mut three] = sites(&up);
    let refused = one.ask(&format!("SOLERA.MODULE LOAD shop \"{}\"", SHOP.replace('"', "\\\"")));
    assert!(
        refused.ends_with("; did you mean BIND shop=stock? matching spaces: bank, stock"),
        "{refused}"
    );
    assert_eq!(load(&mut one, "shop", SHOP), "+OK");
    assert_eq!(one.ask("SOLERA.CALL shop.add n 10"), ":10");
    assert_eq!(one.ask("GET s:n"), "10");
    assert_eq!(one.ask("DECRBY s:n 1"), ":9");
    let token = one.ask("SOLERA.TOKEN");
    assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(two.ask("SOLERA.CALL WEAK shop.left n"), ":9");
    assert_eq!(two.ask("SOLERA.CALL WEAK shop.add n -4"), ":5");
    // Two sites sell the rest. Only the first one in the order does.
    two.ask("HELLO 3");
    assert_eq!(two.ask("SOLERA.BARRIER 10000"), "+OK");
    ok(&up.fault(&["cut", "2", "1"]));
    ok(&up.fault(&["cut", "2", "3"]));
    let sold = field_of(&three.ask("SOLERA.CALL STRONG shop.add n -4"), "ticket");
    assert_eq!(three.ask(&format!("SOLERA.STABLE {sold}")), ":1");
    let called = two.ask("SOLERA.CALL TRACK STRONG shop.add n -5");
    assert_eq!(field_of(&called, "tentative"), "0");
    let ticket = field_of(&called, "ticket");
    ok(&up.fault(&["heal"]));
    let mut pushes = Vec::new();
    while pushes.last().is_none_or(|last: &String| !last.starts_with("solera.stable")) {
        pushes.push(two.reply());
    }
    let failed = "-FAILED aborted: sold out (in transaction `add`, line 1); nothing was changed";
    assert_eq!(*pushes.last().unwrap(), format!("solera.stable {ticket} {failed}"));
    assert_eq!(pushes[..pushes.len() - 1], [format!("solera.revised {ticket} {failed} {sold}")]);
    assert_eq!(one.ask(&format!("SOLERA.STABLE {ticket}")), failed);
    // The key, and two of the registry of modules in the default space. The module itself is none.
    assert_eq!(one.ask("DBSIZE"), ":3");
    // A replaced module has no effect on calls of the other one.
    let other = SHOP.replace("n.add(count)", "n.add(2 * count)");
    assert_eq!(load(&mut three, "shop", &other), "+OK");
    assert_eq!(three.ask("SOLERA.CALL shop.add n 1"), ":3");
    let number = "-BADARG argument 2 (`count`)";
    assert!(one.ask("SOLERA.CALL WEAK shop.add n x").starts_with(number));
    assert!(one.ask("SOLERA.CALL WEAK shop.none n").starts_with("-NOTRANSACTION"));
    assert!(one.ask("SOLERA.CALL WEAK none.add n").starts_with("-NOMODULE"));
    let causal = SHOP.replace(": speculative", ": causal");
    let refused = load(&mut one, "other", &causal);
    assert!(refused.starts_with("-BADBIND the store `shop` needs a stronger level"), "{refused}");
    agree(&mut [one, two, three]);
}

/// Acknowledged operations, and the results of tickets, survive a restart of all sites.
#[test]
fn operations_survive_a_restart() {
    let folder = Folder::new();
    let file = folder.file("s.toml", SPACES);
    let data = folder.at("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    let mut tickets = Vec::new();
    assert!(up.intro.contains("virginia worker 0: its journal is new"), "{}", up.intro);
    assert_eq!(Inline::at(up.address(1)).ask("SOLERA.CALL GET s:n"), "nil");
    up.kill();
    up = Up::again(up.port, &arguments);
    assert!(up.intro.contains("virginia worker 0: its journal was read in"), "{}", up.intro);
    for round in 1..=3 {
        let mut clients = sites(&up);
        for (place, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.ask(&format!("INCR s:{place}")), format!(":{round}"));
        }
        let called = clients[round % 3].ask("SOLERA.CALL STRONG INCR s:n");
        tickets.push((field_of(&called, "ticket"), round));
        assert_eq!(clients[0].ask("SOLERA.CALL INCR s:m"), format!(":{round}"));
        assert_eq!(clients[0].ask("SOLERA.BARRIER 10000"), "+OK");
        drop(clients);
        up.kill();
        up = Up::again(up.port, &arguments);
    }
    assert!(up.intro.contains("virginia worker 0: 5 keys recovered in"), "{}", up.intro);
    let mut clients = sites(&up);
    for (ticket, round) in tickets {
        for client in &mut clients {
            assert_eq!(client.ask(&format!("SOLERA.STABLE {ticket}")), format!(":{round}"));
        }
    }
    agree(&mut clients);
    assert_eq!(clients[2].ask("MGET s:0 s:1 s:2 s:n s:m"), "3 3 3 3 3");
    assert_eq!(clients[2].ask("DBSIZE"), ":5");
}

/// The Rust client's handle of an operation outlives the connection, and the servers.
#[tokio::test]
async fn a_handle_waits_for_its_operation_after_a_restart_and_at_other_sites() {
    let folder = Folder::new();
    let file = folder.file("s.toml", SPACES);
    let data = folder.at("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    let mut client = up.client(1).await;
    let long = Some(Duration::from_secs(60));
    let mut known = client.call_strong(&["INCR", "s:n"]).await.unwrap();
    assert_eq!(known.stable(&mut client, long).await.unwrap(), Value::Integer(1));
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    let mut operation = client.track_strong(&["INCR", "s:n"]).await.unwrap();
    assert_eq!(operation.tentative().unwrap(), Value::Integer(2));
    let late = operation.stable(&mut client, Some(Duration::from_millis(50))).await.unwrap_err();
    assert_eq!(late.code(), Some("TIMEOUT"), "{late}");
    up.kill();
    let lost = operation.stable(&mut client, long).await.unwrap_err();
    assert!(matches!(lost, Error::Interrupted { .. }), "{lost:?}");
    let up = Up::again(up.port, &arguments);
    client.reconnect().await.unwrap();
    assert_eq!(operation.stable(&mut client, long).await.unwrap(), Value::Integer(2));
    let ticket = operation.ticket().unwrap();
    for site in 1..=3 {
        let found = up.client(site).await.stable(ticket, long).await;
        assert_eq!(found.unwrap(), Value::Integer(2));
    }
    assert_eq!(known.stable(&mut client, long).await.unwrap(), Value::Integer(1));
}

/// `solera leader move` moves the leader of the space, too.
#[test]
fn the_leader_of_the_space_moves() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, three] = sites(&up);
    let leader = |words: &[&str]| {
        let at = up.address(1).to_string();
        let done = solera(&[&["leader"], words, &["--at", &at]].concat());
        assert!(done.status.success(), "{done:?}");
        text(&done.stdout)
    };
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(one.ask("SOLERA.CALL INCR s:n"), ":1");
    let first = lines(leader(&["list"]));
    assert_eq!(first[0], "virginia    leads 16 partitions, and the speculative space");
    let moved = lines(leader(&["move", "2"]));
    assert_eq!(moved[1], "california  leads 16 partitions, and the speculative space");
    assert_eq!(field_of(&state(&mut two), "leader"), "california");
    assert_eq!(two.ask("SOLERA.CALL INCR s:n"), ":2");
    let moved = lines(leader(&["move", "frankfurt", "speculative"]));
    assert_eq!(moved[1], "california  leads 16 partitions");
    assert_eq!(moved[2], "frankfurt   leads 0 partitions, and the speculative space");
    assert_eq!(one.ask("SOLERA.CALL INCR s:n"), ":3");
    agree(&mut [one, two, three]);
}

/// A site that is cut off keeps a bounded number of operations, and accepts further ones when the
/// others have received them.
#[tokio::test]
async fn a_site_with_too_many_tentative_operations_is_busy() {
    const SETTINGS: &str = "[speculative]\nmax_tentative = 100\n";
    let up = Up::configured(SPACES, SETTINGS);
    let [mut one, mut two, three] = sites(&up);
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    let mut count = 0;
    let busy = loop {
        assert!(count <= 100, "the site accepts any number");
        match one.ask("INCR s:n") {
            reply if reply == format!(":{}", count + 1) => count += 1,
            other => break other,
        }
    };
    assert!((90..=100).contains(&count), "{count}");
    let text = "-BUSY too many operations of space 'stock' are not final; nothing was done";
    assert!(busy.starts_with(text), "{busy}");
    for line in ["SOLERA.CALL WEAK SET s:m 1", "SOLERA.CALL STRONG INCR s:n", "DECRBY s:n 1"] {
        let busy = one.ask(line);
        assert!(busy.starts_with(text), "{busy}");
    }
    assert_eq!(one.ask("MGET s:n s:m"), format!("{count} nil"));
    assert_eq!(two.ask("SOLERA.CALL INCRBY s:n 1000"), ":1000");
    ok(&up.fault(&["heal"]));
    eventually("the site accepts commands", async || one.ask("INCR s:m") == ":1").await;
    assert_eq!(one.ask("SOLERA.BARRIER 10000"), "+OK");
    assert_eq!(one.ask("GET s:n"), (count + 1000).to_string());
    agree(&mut [one, two, three]);
}

/// While the leader is stopped, others take strong operations, and every stable reply is what the
/// log says.
#[tokio::test]
async fn stable_replies_are_those_of_the_log_though_the_leader_dies() {
    let up = Up::configured(SPACES, "");
    let mut clients = sites(&up);
    let mut stable: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..30 {
        if round == 10 {
            ok(&up.fault(&["kill", "1"]));
        }
        if round == 20 {
            ok(&up.fault(&["restart", "1"]));
            clients[0] = Inline::at(up.address(1));
        }
        let skipped = usize::from((10..20).contains(&round));
        for client in &mut clients[skipped..] {
            client.ask("INCRBY s:n 2");
            let called = client.ask("SOLERA.CALL STRONG INCRBY s:n 1");
            let ticket = field_of(&called, "ticket");
            let result = client.ask(&format!("SOLERA.STABLE {ticket} 60000"));
            stable.insert(ticket, result);
        }
    }
    agree(&mut clients);
    let mut value = 0;
    let mut found = 0;
    let count: usize = field_of(&state(&mut clients[1]), "final").parse().unwrap();
    clients[1].send(&format!("SOLERA.LOG stock 1 {count}"));
    assert_eq!(clients[1].line(), format!("*{count}"));
    for position in 1..=count {
        let entry = clients[1].reply();
        let words: Vec<&str> = entry.split(' ').collect();
        assert_eq!(words[0], format!(":{position}"));
        if let Some(by) = words.get(5) {
            value += by.parse::<i64>().unwrap();
        }
        if let Some(result) = stable.get(words[1]) {
            assert_eq!(*result, format!(":{value}"), "{entry}");
            found += 1;
        }
    }
    assert_eq!(found, stable.len());
    eventually("metrics show the space", async || {
        let metrics = http(up.admin(), "/metrics", "").unwrap().1;
        metrics.contains("solera_speculative_tentative_operations{site=\"virginia\"} 0\n")
    })
    .await;
}
