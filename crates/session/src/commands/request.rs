//! The trait of commands that are not on keys: parsing, checks and reply.

use std::pin::Pin;

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::{ClientSession, Later};

/// A command that does not read or change keys, with its arguments.
///
/// The session checks the number of arguments and the user's rights first. It then calls
/// [`Request::admit`], [`Request::parse`] and [`Request::reply`], in this order.
pub(crate) trait Request: Sized + 'static {
    /// Checks requirements that only this command has: a mode of the session, or another right.
    ///
    /// # Errors
    /// The error reply.
    fn admit<W: Context>(_session: &mut ClientSession<W>) -> Result<(), String> {
        Ok(())
    }

    /// Parses the arguments. The first one is the name of the command. `spec` lists the sites and
    /// partitions that the arguments may name.
    ///
    /// # Errors
    /// The error reply.
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Self, String>;

    /// Runs the command and appends its reply.
    fn reply<W: Context>(self, session: &mut ClientSession<W>) -> impl Future<Output = ()>;
}

impl<R: Request + Clone, W: Context> Later<W> for R {
    fn run<'a>(
        &'a self,
        session: &'a mut ClientSession<W>,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.clone().reply(session))
    }
}

/// Parses a command, runs it and appends its reply.
pub(super) async fn serve<R: Request, W: Context>(
    session: &mut ClientSession<W>,
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
/// The error reply, which EXEC sends.
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

    /// Parses a command line with `parse`.
    pub(in crate::commands) fn with_line<T>(
        line: &str,
        parse: impl FnOnce(&Arguments<'_>, &ClusterSpec) -> T,
    ) -> T {
        let request = format!("{line}\r\n");
        let mut parser = RequestParser::new();
        let (arguments, _) = parser.next(request.as_bytes()).unwrap().unwrap();
        parse(&arguments, &sample::parse(sample::TWO_SITES))
    }

    /// Parses a command line in a cluster of the sites `eu` and `us`.
    pub(in crate::commands) fn parse<R: Request>(line: &str) -> Result<R, String> {
        with_line(line, R::parse)
    }

    /// Asserts that each line is rejected with the error beside it.
    pub(in crate::commands) fn rejects<R: Request>(cases: &[(&str, &str)]) {
        for (line, error) in cases {
            assert_eq!(parse::<R>(line).err().as_deref(), Some(*error), "{line}");
        }
    }
}
