//! QUIT: closes the connection.

use crate::session::{ClientSession, Next};

/// Appends the reply to QUIT, after which the connection is closed.
pub(crate) fn quit<W>(session: &mut ClientSession<W>) -> Next {
    session.out.simple("OK");
    Next::Close
}
