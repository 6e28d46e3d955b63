//! Two independent clusters, one of which is a store of the other's modules.

mod common;

use common::{Folder, Up, eventually};
use solera::{Client, Error, Value};

/// Names are in one cluster and notes in another; readers see writes to both atomically.
const NOTES: &str = "
store names : linearizable;
store notes : causal;

transaction write(name: handle<register<string>> in names, notes: handle<list<string>> in notes, text: string) -> int {
    name.set(text);
    notes.push(text);
    return notes.size();
}
transaction last(name: handle<register<string>> in names) -> string { return *name; }
transaction read(notes: handle<list<string>> in notes) -> list<string> { return notes.values(); }
";

/// A module of the other cluster.
const LAST: &str = "
store directory : linearizable;
transaction last(name: handle<register<string>> in directory) -> string { return *name; }
";

fn space(name: &str, level: &str) -> String {
    format!("[[space]]\nname = '{name}'\nprefix = '{name}:'\nlevel = '{level}'\n")
}

/// Starts the cluster `far`, with a user for the other cluster.
fn far(folder: &Folder) -> Up {
    let spaces = space("directory", "linearizable") + &space("weak", "eventual");
    // The password is `password`.
    let user = "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+@all']\nkeys = ['*']\n\
                [[user]]\nname = 'near'\npassword_sha256 = \
                ['5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8']\n\
                commands = ['+@all']\nkeys = ['*']\n";
    let file = folder.file("far.toml", &format!("cluster = 'far'\n{spaces}{user}"));
    Up::start(&["--config", file.to_str().unwrap()])
}

/// Starts a cluster that uses the other one as a store, with `spaces` of it.
fn near(folder: &Folder, name: &str, port: u16, spaces: &str) -> Up {
    let secret = folder.file("secret", "password\n");
    let secret = secret.to_str().unwrap();
    let own = space("notes", "causal");
    let text = format!(
        "cluster = '{name}'\n{own}[[store]]\nname = 'far'\nkind = 'solera'\n\
         url = 'solera://near@127.0.0.1:{port}'\npassword_file = '{secret}'\ntimeout_ms = 20000\n{spaces}\
         [modules]\nupkeep_ms = 86400000\n"
    );
    let file = folder.file(&format!("{name}.toml"), &text);
    Up::start(&["--config", file.to_str().unwrap()])
}

const DIRECTORY: &str = "[[store.space]]\nname = 'directory'\nlevel = 'linearizable'\n";

async fn load(client: &mut Client, bind: &str) -> Result<Value, Error> {
    client.command(&["SOLERA.MODULE", "LOAD", "notes", NOTES, "REPLACE", "BIND", bind]).await
}

async fn write(client: &mut Client, text: &str) -> Result<Value, Error> {
    client.command(&["SOLERA.CALL", "notes.write", "names:n", "notes:all", text]).await
}

#[tokio::test]
async fn a_module_uses_the_spaces_of_another_cluster() {
    let folder = Folder::new();
    let far = far(&folder);
    let up = near(&folder, "near", far.port + 1, DIRECTORY);
    let mut client = up.client(1).await;
    load(&mut client, "names=far/directory").await.unwrap();
    for (count, text) in [(1, "one"), (2, "two")] {
        assert_eq!(write(&mut client, text).await.unwrap(), Value::Integer(count));
    }
    // Clients of that cluster see the name.
    let mut there = far.client(1).await;
    assert_eq!(there.get("directory:n").await.unwrap().as_deref(), Some("two"));
    let read = client.command(&["SOLERA.CALL", "notes.last", "names:n"]).await.unwrap();
    assert_eq!(read, Value::Bulk(b"two".into()));
    // The phases ran there, so that the cluster now knows the module.
    let digest = solera::mixed::digest(NOTES);
    let source = there.get(&format!("solera:module:{digest}")).await.unwrap();
    assert_eq!(source.as_deref(), Some(NOTES));
    // The cluster's own modules use the same object, although witnesses of both clusters are stored
    // beside it.
    let load = ["SOLERA.MODULE", "LOAD", "last", LAST];
    there.command(&load).await.unwrap();
    let read = there.command(&["SOLERA.CALL", "last.last", "n"]).await.unwrap();
    assert_eq!(read, Value::Bulk(b"two".into()));
    // Consecutive calls share one connection.
    let sessions = there.command(&["CLIENT", "LIST"]).await.unwrap();
    let Value::Verbatim { text: sessions, .. } = sessions else { panic!("{sessions:?}") };
    assert_eq!(sessions.matches("user=near").count(), 1, "{sessions}");
}

#[tokio::test]
async fn mismatches_with_the_other_cluster_are_reported_when_a_module_is_loaded() {
    let folder = Folder::new();
    let far = far(&folder);
    let spaces = "[[store.space]]\nname = 'directory'\nlevel = 'linearizable'\n\
                  [[store.space]]\nname = 'weak'\nlevel = 'linearizable'\n";
    let cases = [
        ("near", spaces, "its space `weak` is eventual, not linearizable"),
        (
            "other",
            "[[store.space]]\nname = 'none'\nlevel = 'linearizable'\n",
            "it has no space `none`; it has ",
        ),
    ];
    for (name, spaces, reason) in cases {
        let up = near(&folder, name, far.port + 1, spaces);
        let mut client = up.client(1).await;
        let space = if name == "near" { "weak" } else { "none" };
        let error = load(&mut client, &format!("names=far/{space}")).await.unwrap_err().to_string();
        assert!(error.starts_with("BADBIND") && error.contains(reason), "{error}");
        let error = load(&mut client, "names=notes").await.unwrap_err().to_string();
        assert!(error.contains("notes is causal: it must be linearizable"), "{error}");
    }
    // Here, the name of the cluster differs from that of the store.
    let text = space("directory", "linearizable");
    let file = folder.file("third.toml", &text);
    let third = Up::start(&["--config", file.to_str().unwrap()]);
    let own = format!(
        "cluster = 'near'\n{}[[store]]\nname = 'far'\nkind = 'solera'\nurl = 'solera://127.0.0.1:{}'\n{DIRECTORY}",
        space("notes", "causal"),
        third.port + 1
    );
    let file = folder.file("wrong.toml", &own);
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    let mut client = up.client(1).await;
    let error = load(&mut client, "names=far/directory").await.unwrap_err().to_string();
    assert!(error.contains("the cluster there is named `solera`"), "{error}");
    drop(third);
    let error = load(&mut client, "names=far/directory").await.unwrap_err().to_string();
    assert!(error.starts_with("UNAVAILABLE") && error.contains("nothing was loaded"), "{error}");
}

#[tokio::test]
async fn a_restarted_cluster_is_used_again() {
    let folder = Folder::new();
    let mut far = far(&folder);
    let up = near(&folder, "near", far.port + 1, DIRECTORY);
    let mut client = up.client(1).await;
    load(&mut client, "names=far/directory").await.unwrap();
    write(&mut client, "one").await.unwrap();
    far.kill();
    // The end of the connection may be noticed only after the call was sent.
    let error = write(&mut client, "two").await.unwrap_err();
    assert!(matches!(error.code(), Some("UNAVAILABLE" | "INCOMPLETE")), "{error}");
    let file = folder.at("far.toml");
    let far_port = far.port;
    drop(far);
    let _far = Up::again(far_port, &["--config", file.to_str().unwrap()]);
    eventually("it is used again", async || write(&mut client, "three").await.is_ok()).await;
    let read = client.command(&["SOLERA.CALL", "notes.read", "notes:all"]).await.unwrap();
    let Value::Array(notes) = read else { panic!("{read:?}") };
    let [one, three] = ["one", "three"].map(|text| Value::Bulk(text.into()));
    assert_eq!((notes.first(), notes.last()), (Some(&one), Some(&three)));
}
