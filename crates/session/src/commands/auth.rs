//! AUTH: which user the connection is.

use solera_config::DEFAULT_USER;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";

pub(crate) fn auth<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let authenticated = match arguments.len() {
        2 => {
            let users = session.worker.users();
            if users.get(DEFAULT_USER).is_some_and(|user| user.nopass) {
                return session.fail(NO_PASSWORD);
            }
            authenticate(session, DEFAULT_USER.as_bytes(), arguments.get(1))
        }
        3 => authenticate(session, arguments.get(1), arguments.get(2)),
        _ => return session.fail("ERR syntax error"),
    };
    if authenticated {
        session.out.simple("OK");
    }
}

/// Makes the connection a user; if the password is wrong, appends the error.
pub(super) fn authenticate<W: Context>(
    session: &mut Session<W>,
    name: &[u8],
    password: &[u8],
) -> bool {
    let known = session.worker.login(&session.identity, name, password, session.from);
    if known {
        // What the client sends along may take long, and CLIENT KILL USER must find it.
        session.tell();
    } else {
        session.fail(WRONG);
    }
    known
}
