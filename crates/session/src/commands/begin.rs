//! SOLERA.BEGIN: opens an interactive transaction.

use solera_commands::CommandId;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// SOLERA.BEGIN [CAUSAL | STRONG].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Whether the transaction is certified.
    pub strong: bool,
}

impl Begin {
    fn parse(arguments: &Arguments<'_>) -> Result<Begin, String> {
        if arguments.len() > 2 {
            return Err("ERR syntax error".to_owned());
        }
        match arguments.from(1).next() {
            None => Ok(Begin { strong: false }),
            Some(level) if level.eq_ignore_ascii_case(b"causal") => Ok(Begin { strong: false }),
            Some(level) if level.eq_ignore_ascii_case(b"strong") => Ok(Begin { strong: true }),
            Some(level) => {
                let level = String::from_utf8_lossy(level).to_uppercase();
                Err(format!(
                    "ERR there are no {level} transactions: SOLERA.BEGIN CAUSAL or SOLERA.BEGIN STRONG"
                ))
            }
        }
    }
}

impl Typed for Begin {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraBegin
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<(), String> {
        session.begin(self.strong).await
    }
}

pub(crate) async fn begin<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let begun = match session.may_begin().and_then(|()| Begin::parse(arguments)) {
        Ok(begin) => begin.run(session).await,
        Err(error) => Err(error),
    };
    session.answer_ok(begun);
}
