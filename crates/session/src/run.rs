//! The path of each command through a session: checks, queueing and execution.

use solera_commands::{Command as Described, CommandId, InMulti, lookup};
use solera_config::{Baseline, Runs, SpaceType};
use solera_data::Op;
use solera_levels::Level;
use solera_resp::Arguments;

use crate::commands;
use crate::context::{Context, Single};
use crate::plan;
use crate::session::{ClientSession, Mode, Next, Work, permits};

impl<W: Context> ClientSession<W> {
    /// Runs a command on one key of this worker and appends its reply. This is the hot path and
    /// never waits. Returns whether the command could be run; otherwise nothing has happened.
    pub fn run_at_once(&mut self, arguments: &Arguments<'_>) -> bool {
        if self.in_transaction() {
            return false;
        }
        let Some(command) = lookup(arguments.get(0)) else { return false };
        if !command.takes(arguments.len()) || self.worker.refuses_some() {
            return false;
        }
        if self.may(command, arguments).is_err() {
            return false;
        }
        let Ok(Some(op)) = plan::single(command.id, arguments) else { return false };
        let key = arguments.get(1);
        let space = self.worker.spec().spaces.space_of(key);
        if matches!(space.runs, Runs::Occult(_)) {
            return self.read_occult_at_once(command, key, &op);
        }
        let level = space.level;
        let certified = matches!(level, Level::Linearizable | Level::Por)
            || self.worker.spec().protocol == Baseline::Strong;
        if certified || space.runs != Runs::UniStore || matches!(op, Op::SetNew(_)) {
            return false;
        }
        if space.of_type.is_some_and(|of_type| !permits(of_type, &op)) {
            return false;
        }
        if plan::is_of_pools(command.id) && space.of_type != Some(SpaceType::Pool) {
            return false;
        }
        let (now, pasts) = (self.now, &mut self.pasts);
        let single = Single { level, key, op: &op, command: command.id };
        let Some(result) = self.worker.execute_at_once(now, pasts, single) else {
            return false;
        };
        self.last_command = command.name;
        if !plan::write_at_once(&mut self.out, command.id, &op, &result) {
            self.worker.count_error();
        }
        true
    }

    /// Runs one command and appends its reply.
    ///
    /// After an error reply, an open transaction has no effect, because it would lack a command
    /// that the client meant to run. SOLERA.COMMIT and SOLERA.ABORT end the transaction even when
    /// they fail. After an error of any other command, RESET included, the transaction is given up,
    /// so that no later command of the transaction runs outside it.
    pub async fn run(&mut self, arguments: &Arguments<'_>) -> Next {
        let start = self.out.bytes.len();
        let next = self.run_command(arguments).await;
        let reply = self.out.bytes.get(start..);
        let Some(error) = reply.and_then(|reply| reply.strip_prefix(b"-")) else { return next };
        let error = String::from_utf8_lossy(error.trim_ascii_end()).into_owned();
        self.fail_transaction(lookup(arguments.get(0)).map(|command| command.id), error);
        next
    }

    async fn run_command(&mut self, arguments: &Arguments<'_>) -> Next {
        let Some(command) = lookup(arguments.get(0)) else {
            if [&b"post"[..], b"host:"]
                .iter()
                .any(|name| arguments.get(0).eq_ignore_ascii_case(name))
            {
                // The sender is a browser that a web page made send commands, or a misdirected HTTP
                // client. As Redis does, close the connection before it sends more.
                return Next::Close;
            }
            let rest = arguments.from(1);
            self.spoil(&solera_commands::unknown_command(arguments.get(0), rest));
            return Next::Stay;
        };
        self.worker.count_command(command.id);
        self.last_command = command.name;
        if let Err(error) = self.check(command, arguments) {
            self.refuse(command.id, &error);
            return Next::Stay;
        }
        if self.mode.queue().is_some() && !runs_at_once(command) {
            let work = self.work_for_exec(command, arguments);
            self.enqueue(command, arguments, work);
            return Next::Stay;
        }
        if let Err(error) = self.mode.admits(command.id) {
            self.fail(error);
            return Next::Stay;
        }
        self.note_writes(command);
        self.client.begin_command(command.id);
        self.dispatch(command, arguments).await
    }

    /// Checks that a command may be run now, or queued.
    ///
    /// # Errors
    /// The error reply.
    fn check(&self, command: &'static Described, arguments: &Arguments<'_>) -> Result<(), String> {
        if !command.takes(arguments.len()) {
            return Err(command.wrong_arity());
        }
        self.may(command, arguments).map_err(|refused| refused.to_string())?;
        self.admits(command)
    }

    /// Checks that the node accepts a command now, whoever sends it.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn admits(&self, command: &Described) -> Result<(), String> {
        if !self.worker.serves() && needs_data(command) {
            let site = self.worker.site_name(self.worker.address().site);
            return Err(match self.worker.refused_by_others() {
                Some(reason) => format!("LOADING site {site} does not get its data: {reason}"),
                None => format!("LOADING site {site} is getting its data from the other sites"),
            });
        }
        if (command.has_flag("write") || self.commits_writes(command.id))
            && let Some(reason) = self.worker.takes_no_writes()
        {
            return Err(reason);
        }
        if self.worker.is_memory_full() && command.has_flag("denyoom") {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
        }
        Ok(())
    }

    /// Returns whether a command ends a transaction that may write.
    fn commits_writes(&self, command: CommandId) -> bool {
        match command {
            CommandId::Exec => matches!(&self.mode, Mode::Queueing(queue) if queue.writes),
            CommandId::SoleraCommit => matches!(&self.mode, Mode::Open(open) if open.writes),
            _ => false,
        }
    }

    /// Runs a command that passed all checks, and appends its reply.
    async fn dispatch(&mut self, command: &Described, arguments: &Arguments<'_>) -> Next {
        if !plan::is_on_keys(command) {
            return commands::run_other(self, command.id, arguments).await;
        }
        match plan::plan(command.id, arguments) {
            Ok(plan) => match self.run_plan(&plan).await {
                Ok(results) => self.answer(&plan, &results),
                Err(stopped) => self.fail(stopped.into_error()),
            },
            Err(error) => self.fail(error),
        }
        Next::Stay
    }

    /// Parses a command once, when it is queued, into the work that EXEC does for it. Returns
    /// `None` if the command is not allowed between MULTI and EXEC.
    fn work_for_exec(&self, command: &Described, arguments: &Arguments<'_>) -> Option<Work<W>> {
        let parsed = match plan::is_on_keys(command) {
            true => plan::plan(command.id, arguments).map(|plan| Work::Keys(plan.into_owned())),
            false => {
                commands::for_exec(self.worker.spec(), command.id, arguments)?.map(Work::Other)
            }
        };
        Some(parsed.unwrap_or_else(Work::Wrong))
    }

    /// Rejects a command. A rejected EXEC still ends its transaction, as in Redis.
    fn refuse(&mut self, command: CommandId, error: &str) {
        if command == CommandId::Exec && self.mode.end_queue().is_some() {
            self.unwatch();
            return self.fail(format!("EXECABORT Transaction discarded because of: {error}"));
        }
        self.spoil(error);
    }

    /// Appends an error that occurred before execution. EXEC then runs nothing.
    pub(crate) fn spoil(&mut self, error: &str) {
        if let Some(queue) = self.mode.queue_mut() {
            queue.broken = true;
        }
        self.fail(error);
    }
}

/// Returns whether a command needs data, the site's own or that of a past.
fn needs_data(command: &Described) -> bool {
    command.is_data()
        || matches!(
            command.id,
            CommandId::Exec
                | CommandId::SoleraBegin
                | CommandId::SoleraAttach
                | CommandId::SoleraBarrier
                | CommandId::SoleraAtRisk
                | CommandId::SoleraExport
                | CommandId::Dbsize
                | CommandId::SoleraModule
                | CommandId::SoleraCall
                | CommandId::SoleraPhase
                | CommandId::SoleraStable
                | CommandId::SoleraState
                | CommandId::SoleraLog
                | CommandId::Wait
        )
}

/// Returns whether a command runs at once even while commands are queued. MULTI does, and fails.
fn runs_at_once(command: &Described) -> bool {
    command.in_multi() == InMulti::AtOnce || command.id == CommandId::Multi
}
