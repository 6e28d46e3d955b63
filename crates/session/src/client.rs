//! Clients of a node, as `CLIENT LIST` shows them.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use solera_commands::{COMMANDS, CommandId};
use tokio::sync::Notify;

/// Both ends of a connection, as `CLIENT LIST` shows them.
pub struct Ends {
    address: String,
    local_address: String,
    descriptor: i32,
}

impl Ends {
    /// Creates the ends of a socket whose file descriptor is `descriptor`.
    pub fn new(address: String, local_address: String, descriptor: i32) -> Ends {
        Ends { address, local_address, descriptor }
    }

    /// Creates the ends of a connection within this process.
    pub fn embedded() -> Ends {
        let name = "embedded:0".to_owned();
        Ends { address: name.clone(), local_address: name, descriptor: -1 }
    }
}

/// Information about a client that its session publishes after each batch of commands.
#[derive(Clone)]
pub struct ClientInfo {
    /// Name that the client has set with CLIENT SETNAME.
    pub name: String,
    /// Name of the client's user; empty until the client has authenticated.
    pub user: String,
    /// The client library's name.
    pub library: String,
    /// The client library's version.
    pub library_version: String,
    /// Name of the last command of the last batch.
    pub command: &'static str,
    /// Number of commands queued since MULTI; `None` outside MULTI.
    pub queued: Option<usize>,
    /// Whether MULTI or SOLERA.BEGIN is open.
    pub in_transaction: bool,
    /// Version of RESP that the client uses.
    pub protocol: u8,
    /// Time of the last batch of commands.
    pub active: Instant,
}

/// Value of [`Client::running`] between batches.
const NO_COMMAND: usize = usize::MAX;

/// One connected client, as other clients see it.
pub struct Client {
    /// Number of the client, unique in the cluster.
    pub id: u64,
    ends: Ends,
    since: Instant,
    info: Mutex<ClientInfo>,
    /// Number of the current command of a batch, which runs or waits; [`NO_COMMAND`] between
    /// batches.
    running: AtomicUsize,
    killed: Notify,
}

impl Client {
    /// Creates a client that has sent nothing yet.
    pub fn new(id: u64, ends: Ends) -> Client {
        let now = Instant::now();
        let info = ClientInfo {
            name: String::new(),
            user: String::new(),
            library: String::new(),
            library_version: String::new(),
            command: "NULL",
            queued: None,
            in_transaction: false,
            protocol: 2,
            active: now,
        };
        Client {
            id,
            ends,
            since: now,
            info: Mutex::new(info),
            running: AtomicUsize::new(NO_COMMAND),
            killed: Notify::new(),
        }
    }

    /// Returns whether the client has a transaction open.
    pub fn is_in_transaction(&self) -> bool {
        lock(&self.info).in_transaction
    }

    /// Publishes the command that runs now, because it may have to wait. It takes no lock: every
    /// command of a batch calls it.
    pub fn begin_command(&self, command: CommandId) {
        self.running.store(command as usize, Ordering::Relaxed);
    }

    /// Changes the published information about the client, at the end of a batch.
    pub fn update_info(&self, change: impl FnOnce(&mut ClientInfo)) {
        change(&mut lock(&self.info));
        self.running.store(NO_COMMAND, Ordering::Relaxed);
    }

    /// Completes when [`Client::kill`] is called.
    pub async fn death(&self) {
        self.killed.notified().await;
    }

    /// Makes the client's connection end.
    pub fn kill(&self) {
        self.killed.notify_one();
    }

    /// Returns the client's own address.
    pub fn address(&self) -> &str {
        &self.ends.address
    }

    /// Returns the address that the client connected to.
    pub fn local_address(&self) -> &str {
        &self.ends.local_address
    }

    /// Returns whether the client's user has this name.
    pub fn is_user(&self, name: &[u8]) -> bool {
        lock(&self.info).user.as_bytes() == name
    }

    /// Returns a line of `CLIENT LIST` with Redis' fields. Fields that Solera does not have or
    /// count have the value that an idle Redis reports.
    pub fn line(&self) -> String {
        let info = lock(&self.info).clone();
        let running = COMMANDS.get(self.running.load(Ordering::Relaxed));
        let command = running.map_or(info.command, |command| command.name);
        let now = Instant::now();
        let seconds = |since| now.saturating_duration_since(since).as_secs();
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 \
             multi={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
             tot-mem=0 events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.ends.address,
            self.ends.local_address,
            self.ends.descriptor,
            info.name,
            seconds(self.since),
            seconds(info.active),
            if info.queued.is_some() { "x" } else { "N" },
            info.queued.map_or(-1, |queued| queued as i64),
            command,
            info.user,
            info.protocol,
            info.library,
            info.library_version,
        );
        line
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_command_that_runs_or_else_the_last_one() {
        let client = Client::new(1, Ends::embedded());
        assert!(client.line().contains(" cmd=NULL "));
        client.begin_command(CommandId::SoleraBarrier);
        assert!(client.line().contains(" cmd=solera.barrier "));
        client.update_info(|info| info.command = "client|list");
        assert!(client.line().contains(" cmd=client|list "));
    }
}
