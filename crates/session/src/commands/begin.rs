//! SOLERA.BEGIN: opens an interactive transaction.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::{ClientSession, TransactionKind};
use crate::typed::Typed;

/// SOLERA.BEGIN [CAUSAL | STRONG | PCPSI].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Kind of the transaction.
    pub kind: TransactionKind,
}

impl Typed for Begin {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraBegin
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        session.begin(self.kind).await
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
        let kind = match arguments.from(1).next() {
            None => TransactionKind::Causal,
            Some(level) if level.eq_ignore_ascii_case(b"causal") => TransactionKind::Causal,
            Some(level) if level.eq_ignore_ascii_case(b"strong") => TransactionKind::Strong,
            Some(level) if level.eq_ignore_ascii_case(b"pcpsi") => TransactionKind::PcPsi,
            Some(level) => {
                let level = String::from_utf8_lossy(level).to_uppercase();
                return Err(format!(
                    "ERR there are no {level} transactions: SOLERA.BEGIN CAUSAL, STRONG or PCPSI"
                ));
            }
        };
        Ok(Begin { kind })
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
        let begin = |kind| Ok(Begin { kind });
        assert_eq!(parse("SOLERA.BEGIN"), begin(TransactionKind::Causal));
        assert_eq!(parse("SOLERA.BEGIN Causal"), begin(TransactionKind::Causal));
        assert_eq!(parse("SOLERA.BEGIN STRONG"), begin(TransactionKind::Strong));
        assert_eq!(parse("SOLERA.BEGIN pcpsi"), begin(TransactionKind::PcPsi));
        rejects::<Begin>(&[
            (
                "SOLERA.BEGIN weak",
                "ERR there are no WEAK transactions: SOLERA.BEGIN CAUSAL, STRONG or PCPSI",
            ),
            ("SOLERA.BEGIN STRONG x", "ERR syntax error"),
        ]);
    }
}
