//! SOLERA.TOKEN: the session's causal and durability past, to be attached at any site.

use solera_commands::CommandId;

use crate::context::Context;
use crate::session::Session;
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

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<Token, String> {
        if session.in_transaction() {
            return Err(
                "ERR take the token after the transaction, which it cannot contain yet".to_owned()
            );
        }
        Ok(Token { cluster: session.worker.cluster(), pasts: session.pasts })
    }
}

pub(crate) async fn token<W: Context>(session: &mut Session<W>) {
    match TakeToken.run(session).await {
        Ok(token) => session.out.bulk(token.encode().as_bytes()),
        Err(error) => session.fail(error),
    }
}
