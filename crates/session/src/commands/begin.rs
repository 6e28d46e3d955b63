//! SOLERA.BEGIN: opens an interactive transaction.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// SOLERA.BEGIN [CAUSAL | STRONG].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Whether the transaction will be certified.
    pub strong: bool,
}

impl Typed for Begin {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraBegin
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        session.begin(self.strong).await
    }
}

impl Request for Begin {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        session.may_begin()
    }

    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Begin, String> {
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

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let begun = self.run(session).await;
        session.answer_ok(begun);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_transaction_is_causal_unless_it_is_strong() {
        assert_eq!(parse("SOLERA.BEGIN"), Ok(Begin { strong: false }));
        assert_eq!(parse("SOLERA.BEGIN Causal"), Ok(Begin { strong: false }));
        assert_eq!(parse("SOLERA.BEGIN STRONG"), Ok(Begin { strong: true }));
        rejects::<Begin>(&[
            (
                "SOLERA.BEGIN weak",
                "ERR there are no WEAK transactions: SOLERA.BEGIN CAUSAL or SOLERA.BEGIN STRONG",
            ),
            ("SOLERA.BEGIN STRONG x", "ERR syntax error"),
        ]);
    }
}
