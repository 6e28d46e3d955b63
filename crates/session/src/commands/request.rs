//! The way of a command from byte strings to its reply.

use std::pin::Pin;

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::{Later, Session};

/// A command that does not read or change keys, with its arguments.
///
/// The table of commands has checked the number of arguments, and what the user may run;
/// [`Request::admit`] comes before the arguments are parsed, [`Request::reply`] after.
pub(crate) trait Request: Sized + 'static {
    /// Checks what this command needs beyond what all commands do: a mode of the session, or
    /// another right.
    ///
    /// # Errors
    /// The error reply.
    fn admit<W: Context>(_session: &mut Session<W>) -> Result<(), String> {
        Ok(())
    }

    /// Parses the arguments, of which the name of the command is the first. Names of sites and
    /// numbers of partitions are those of the cluster that `spec` describes.
    ///
    /// # Errors
    /// The error reply.
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Self, String>;

    /// Runs the command and appends its reply.
    fn reply<W: Context>(self, session: &mut Session<W>) -> impl Future<Output = ()>;
}

impl<R: Request + Clone, W: Context> Later<W> for R {
    fn run<'a>(&'a self, session: &'a mut Session<W>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.clone().reply(session))
    }
}

/// Parses a command, runs it and appends its reply.
pub(super) async fn serve<R: Request, W: Context>(
    session: &mut Session<W>,
    arguments: &Arguments<'_>,
) {
    match R::admit(session).and_then(|()| R::parse(arguments, session.worker.spec())) {
        Ok(request) => request.reply(session).await,
        Err(error) => session.fail(error),
    }
}

/// Parses a command that EXEC will run.
///
/// # Errors
/// The error reply, which EXEC gives.
pub(super) fn for_later<R: Request + Clone, W: Context>(
    arguments: &Arguments<'_>,
    spec: &ClusterSpec,
) -> Result<Box<dyn Later<W>>, String> {
    Ok(Box::new(R::parse(arguments, spec)?))
}

/// Parsing of commands in tests.
#[cfg(test)]
pub(super) mod testing {
    use solera_config::{ClusterSpec, sample};
    use solera_resp::{Arguments, RequestParser};

    use super::Request;

    /// Has `parse` read a command that is written as a line.
    pub(in crate::commands) fn with_line<T>(
        line: &str,
        parse: impl FnOnce(&Arguments<'_>, &ClusterSpec) -> T,
    ) -> T {
        let request = format!("{line}\r\n");
        let mut parser = RequestParser::new();
        let (arguments, _) = parser.next(request.as_bytes()).unwrap().unwrap();
        parse(&arguments, &sample::parse(sample::TWO_SITES))
    }

    /// The command on a line, in a cluster of the sites `eu` and `us`.
    pub(in crate::commands) fn parse<R: Request>(line: &str) -> Result<R, String> {
        with_line(line, R::parse)
    }

    /// Requires that each line is refused with the error beside it.
    pub(in crate::commands) fn refuses<R: Request>(cases: &[(&str, &str)]) {
        for (line, error) in cases {
            assert_eq!(parse::<R>(line).err().as_deref(), Some(*error), "{line}");
        }
    }
}
