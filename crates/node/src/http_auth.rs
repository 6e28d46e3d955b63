//! Authorisation over HTTP: the same users as over RESP, by HTTP Basic.

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use data_encoding::BASE64_NOPAD;
use solera_config::{DEFAULT_USER, User, Users};
use solera_session::verify;

use crate::attempts::Attempts;
use crate::cluster::Cluster;
use crate::http::{From, refusal};

/// Realm of the HTTP interface. It distinguishes a missing login from the 401 of another server.
pub const REALM: &str = "solera";

/// State of the authorisation of requests.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) attempts: Arc<Mutex<Attempts>>,
}

/// Passes requests that their user may send. Probes need no user, because it is public whether the
/// process is alive.
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    if matches!(request.uri().path(), "/health" | "/ready") {
        return next.run(request).await;
    }
    let users = &guard.cluster.settings().users;
    match user_of(users, request.headers()) {
        Ok(user) if may(&user, request.method()) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Ok(user)
            if user.name == DEFAULT_USER
                && !request.headers().contains_key(header::AUTHORIZATION) =>
        {
            unauthorized("this needs a user; authenticate by HTTP Basic")
        }
        Ok(user) => {
            let right = match is_reading(request.method()) {
                true => "run INFO",
                false => "run all commands of @admin",
            };
            let reason =
                format!("user '{}' may not do this; it needs the right to {right}", user.name);
            refusal(StatusCode::FORBIDDEN, reason)
        }
        Err(name) => {
            if let Some(name) = name {
                let from = request.extensions().get::<From>().map(|from| from.0);
                let attempts = guard.attempts.lock().expect("nothing panics with the lock");
                attempts.log_failed_login(&name, from);
            }
            unauthorized("this needs a user and its password, by HTTP Basic")
        }
    }
}

fn unauthorized(reason: &str) -> Response {
    let mut answer = refusal(StatusCode::UNAUTHORIZED, reason);
    let how = format!("Basic realm=\"{REALM}\", charset=\"UTF-8\"");
    let how = HeaderValue::try_from(how).expect("the realm is a plain word");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    answer
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns whether a user may send a request. Reading needs the right to run INFO; changing the
/// cluster needs the rights of an administrator.
fn may(user: &User, method: &Method) -> bool {
    if is_reading(method) { user.may_run("info") } else { user.may_run_all("admin") }
}

/// Returns the authenticated user of a request, or the default user if that one needs no password.
///
/// # Errors
/// The name, if one was given, whose authentication failed.
fn user_of(users: &Users, headers: &HeaderMap) -> Result<Arc<User>, Option<Vec<u8>>> {
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        let default = users.get(DEFAULT_USER).filter(|user| user.nopass && user.enabled);
        return default.cloned().ok_or(None);
    };
    let (name, password) = credentials(given.as_bytes()).ok_or(None)?;
    verify(users, &name, &password).ok_or(Some(name))
}

/// Returns the name and the password of `Basic …`.
fn credentials(given: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = given.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    // The padding may be missing.
    let digits = encoded.trim_ascii();
    let digits = digits.strip_suffix(b"=").unwrap_or(digits);
    let digits = digits.strip_suffix(b"=").unwrap_or(digits);
    let decoded = BASE64_NOPAD.decode(digits).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some((decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera_session::hash_password;

    fn users() -> Users {
        let mut admin = User::new("admin");
        admin.add_hash(&hash_password(b"p:w")).unwrap();
        admin.add_rule("+@all").unwrap();
        let mut watcher = User::new("watcher");
        watcher.add_hash(&hash_password(b"pw")).unwrap();
        watcher.add_rule("+info").unwrap();
        Users::new(vec![admin, watcher])
    }

    fn rights(users: &Users, given: Option<&'static str>) -> Option<(bool, bool)> {
        let mut headers = HeaderMap::new();
        if let Some(given) = given {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(given));
        }
        let user = user_of(users, &headers).ok()?;
        Some((may(&user, &Method::GET), may(&user, &Method::POST)))
    }

    #[test]
    fn an_authenticated_request_has_the_rights_of_its_user() {
        let users = users();
        for (given, expected) in [
            // admin:p:w
            (Some("Basic YWRtaW46cDp3"), Some((true, true))),
            (Some("basic  YWRtaW46cDp3"), Some((true, true))),
            // watcher:pw
            (Some("Basic d2F0Y2hlcjpwdw=="), Some((true, false))),
            (Some("Basic d2F0Y2hlcjpwdw"), Some((true, false))),
            // watcher:
            (Some("Basic d2F0Y2hlcjo="), None),
            (Some("Basic d2F0Y2hlcg=="), None),
            (Some("Basic !"), None),
            (Some("Bearer YWRtaW46cDp3"), None),
            (Some("x"), None),
            (None, None),
        ] {
            assert_eq!(rights(&users, given), expected, "{given:?}");
        }
        assert_eq!(rights(&Users::default(), None), Some((true, true)), "without users");
    }
}
