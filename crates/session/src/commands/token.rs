//! SOLERA.TOKEN: replies with the session's causal and durability past, which any site can attach.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::token::Token;
use crate::typed::Typed;

/// SOLERA.TOKEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeToken;

impl Typed for TakeToken {
    type Answer = Token;

    fn command(&self) -> CommandId {
        CommandId::SoleraToken
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<Token, String> {
        if session.in_transaction() {
            return Err(
                "ERR take the token after the transaction, which it cannot contain yet".to_owned()
            );
        }
        session.await_pending().await?;
        let occult = (session.occult.past.clone(), session.occult.epoch);
        let occult = Some(occult).filter(|(past, _)| !past.is_empty());
        Ok(Token {
            cluster: session.worker.cluster(),
            pasts: session.pasts,
            primary: session.primary.clone(),
            occult,
            speculative: session.speculative.past.clone(),
        })
    }
}

impl Request for TakeToken {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<TakeToken, String> {
        Ok(TakeToken)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self.run(session).await {
            Ok(token) => match token.encode() {
                Some(text) => session.out.bulk(text.as_bytes()),
                None => session.fail(
                    "TOOLARGE the session has seen more of spaces that 'primary' runs than a token can \
                     carry; RESET",
                ),
            },
            Err(error) => session.fail(error),
        }
    }
}
