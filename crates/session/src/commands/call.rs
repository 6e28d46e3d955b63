//! SOLERA.CALL with a chosen level, and of a Redis command: one operation of the speculative space.

use solera_commands::{Command as Described, Unit, lookup};
use solera_creek::Level;
use solera_procedures::Procedure;
use solera_resp::{Arguments, Protocol};

use crate::context::Context;
use crate::plan;
use crate::returned::{Invoked, write_returned};
use crate::session::ClientSession;
use crate::ticket::Ticket;

/// Options of a call, from the words before the name of the procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct How {
    /// WEAK or STRONG; `None` for the final result alone.
    pub(super) level: Option<Level>,
    /// Whether the client wants a ticket, and all later results that differ.
    pub(super) track: bool,
}

impl How {
    /// Reads the words TRACK, WEAK and STRONG after the command's name. Returns the number of the
    /// other arguments' first one, too.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn parse(arguments: &Arguments<'_>) -> Result<(How, usize), String> {
        let (mut how, mut first) = (How::default(), 1);
        let is = |at: usize, word: &[u8]| {
            at < arguments.len() && arguments.get(at).eq_ignore_ascii_case(word)
        };
        if is(first, b"track") {
            (how.track, first) = (true, first + 1);
        }
        if is(first, b"weak") {
            (how.level, first) = (Some(Level::Weak), first + 1);
        } else if is(first, b"strong") {
            (how.level, first) = (Some(Level::Strong), first + 1);
        }
        match (how.track && how.level.is_none(), first < arguments.len()) {
            (true, _) => Err("ERR SOLERA.CALL TRACK takes WEAK or STRONG".to_owned()),
            (_, false) => {
                Err("ERR SOLERA.CALL WEAK and STRONG take a procedure with its arguments"
                    .to_owned())
            }
            _ => Ok((how, first)),
        }
    }
}

/// A Redis command on keys of the speculative space, which SOLERA.CALL runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallOfCommand {
    pub(super) how: How,
    command: &'static Described,
    plan: plan::Plan<'static>,
}

impl CallOfCommand {
    /// Parses a command with its arguments, which begin at `first`.
    ///
    /// # Errors
    /// The error reply, if the command is not one on keys.
    pub(super) fn parse(
        how: How,
        arguments: &Arguments<'_>,
        first: usize,
    ) -> Result<CallOfCommand, String> {
        let name = arguments.get(first);
        let found = lookup(name).filter(|command| plan::is_on_keys(command));
        let Some(command) = found else {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "ERR SOLERA.CALL runs transactions of modules, as module.transaction, and commands on keys, such as \
                 INCR, not '{name}'"
            ));
        };
        let arguments = arguments.without(first);
        command.check_arity(arguments.len())?;
        let plan = plan::plan(command.id, &arguments)?.into_owned();
        Ok(CallOfCommand { how, command, plan })
    }

    /// Runs the command and appends the reply.
    pub(super) async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if let Err(error) = self.run(session).await {
            session.fail(error);
        }
    }

    async fn run<W: Context>(self, session: &mut ClientSession<W>) -> Result<(), String> {
        let CallOfCommand { how, command, plan } = self;
        let unit = Unit::of(command, None);
        session.may_use(unit, plan.keys()).map_err(|refused| refused.to_string())?;
        session.admits(command)?;
        let spaces = &session.worker.spec().spaces;
        if let Some(key) = plan.keys().find(|key| !spaces.is_speculative(key)) {
            let space = &spaces.space_of(key).name;
            let key = String::from_utf8_lossy(key);
            return Err(format!(
                "ERR '{key}' is in space '{space}', and SOLERA.CALL runs commands on keys of a space of level \
                 speculative; send the command by itself"
            ));
        }
        let procedure = session.procedure_of(&plan)?;
        answer(session, how, procedure).await
    }
}

/// Runs an operation of the speculative space and appends the reply.
///
/// # Errors
/// The error reply.
async fn answer<W: Context>(
    session: &mut ClientSession<W>,
    how: How,
    procedure: Procedure,
) -> Result<(), String> {
    how.admit(session)?;
    let Some(level) = how.level else {
        let returned = session.run_procedure(procedure, Level::Strong).await?;
        write_returned(&mut session.out, &returned);
        return Ok(());
    };
    let invoked = session.invoke(procedure, level).await?;
    how.write(session, invoked);
    Ok(())
}

impl How {
    /// Checks that the client can get the results that it wants.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn admit<W: Context>(self, session: &ClientSession<W>) -> Result<(), String> {
        match self.has_ticket() && session.out.protocol == Protocol::Resp3 {
            true => session.may_follow(),
            false => Ok(()),
        }
    }

    /// Returns whether the reply contains a ticket.
    fn has_ticket(self) -> bool {
        self.track || self.level == Some(Level::Strong)
    }

    /// Appends the reply to a call, and makes the session send its later results.
    pub(super) fn write<W: Context>(self, session: &mut ClientSession<W>, invoked: Invoked) {
        let Invoked { id, returned, .. } = invoked;
        if !self.has_ticket() {
            return write_returned(&mut session.out, &returned);
        }
        session.out.map(2);
        session.out.bulk(b"ticket");
        match id {
            Some(id) => session.out.bulk(Ticket(id).to_string().as_bytes()),
            // A weak operation that only reads has no place in the order.
            None => session.out.null(),
        }
        session.out.bulk(b"tentative");
        write_returned(&mut session.out, &returned);
        if let Some(id) = id {
            session.follow(id, self.track.then_some(returned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::with_line;
    use super::*;

    fn how(line: &str) -> Result<(How, usize), String> {
        with_line(line, |arguments, _| How::parse(arguments))
    }

    #[test]
    fn a_level_may_be_given_and_a_ticket_with_it() {
        let (weak, strong) = (Some(Level::Weak), Some(Level::Strong));
        assert_eq!(how("SOLERA.CALL INCR a"), Ok((How { level: None, track: false }, 1)));
        assert_eq!(how("SOLERA.CALL weak INCR a"), Ok((How { level: weak, track: false }, 2)));
        assert_eq!(
            how("SOLERA.CALL TRACK Strong a.b"),
            Ok((How { level: strong, track: true }, 3))
        );
        let track = "ERR SOLERA.CALL TRACK takes WEAK or STRONG";
        assert_eq!(how("SOLERA.CALL TRACK INCR a"), Err(track.to_owned()));
        let few = "ERR SOLERA.CALL WEAK and STRONG take a procedure with its arguments";
        assert_eq!(how("SOLERA.CALL WEAK"), Err(few.to_owned()));
    }

    #[test]
    fn commands_on_keys_are_procedures() {
        let parse = |line| {
            with_line(line, |arguments, _| {
                CallOfCommand::parse(How::default(), arguments, 1).map(|call| call.command.name)
            })
        };
        assert_eq!(parse("SOLERA.CALL incrby a 5"), Ok("incrby"));
        assert_eq!(parse("SOLERA.CALL MSET a 1 b 2"), Ok("mset"));
        let arity = "ERR wrong number of arguments for 'incrby' command";
        assert_eq!(parse("SOLERA.CALL INCRBY a"), Err(arity.to_owned()));
        for no_command in ["SOLERA.CALL FOO a", "SOLERA.CALL PING", "SOLERA.CALL WATCH a"] {
            assert!(
                parse(no_command).unwrap_err().contains("and commands on keys"),
                "{no_command}"
            );
        }
    }
}
