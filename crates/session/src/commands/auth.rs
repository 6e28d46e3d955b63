//! AUTH: authenticates the connection as a user.

use solera_config::{ClusterSpec, DEFAULT_USER};
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";

/// AUTH [user] password.
#[derive(PartialEq, Eq)]
pub(crate) struct Auth {
    /// Name of the user; `None` for the default user.
    user: Option<Vec<u8>>,
    password: Vec<u8>,
}

impl Request for Auth {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Auth, String> {
        match arguments.len() {
            2 => Ok(Auth { user: None, password: arguments.get(1).to_vec() }),
            3 => Ok(Auth {
                user: Some(arguments.get(1).to_vec()),
                password: arguments.get(2).to_vec(),
            }),
            _ => Err("ERR syntax error".to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let needs_none = || {
            let users = session.worker.users();
            users.get(DEFAULT_USER).is_some_and(|user| user.nopass)
        };
        let authenticated = match &self.user {
            None if needs_none() => Err(NO_PASSWORD),
            None => authenticate(session, DEFAULT_USER.as_bytes(), &self.password),
            Some(user) => authenticate(session, user, &self.password),
        };
        session.answer_ok(authenticated.map_err(str::to_owned));
    }
}

/// Authenticates the connection as a user.
///
/// # Errors
/// The error reply, if the password is wrong or the user is disabled.
pub(super) fn authenticate<W: Context>(
    session: &mut ClientSession<W>,
    name: &[u8],
    password: &[u8],
) -> Result<(), &'static str> {
    if !session.worker.login(&session.identity, name, password, session.from) {
        return Err(WRONG);
    }
    // The commands that follow in the batch may take long, and CLIENT KILL USER must find the
    // client.
    session.publish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn the_user_may_be_left_out() {
        let auth = |user: Option<&str>, password: &str| Auth {
            user: user.map(|user| user.as_bytes().to_vec()),
            password: password.as_bytes().to_vec(),
        };
        assert!(parse("AUTH pw") == Ok(auth(None, "pw")));
        assert!(parse("AUTH bob pw") == Ok(auth(Some("bob"), "pw")));
        rejects::<Auth>(&[("AUTH bob pw x", "ERR syntax error")]);
    }
}
