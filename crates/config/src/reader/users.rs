//! `[[user]]`: users and their rights.

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::acl::{RuleError, User, Users};
use crate::error::ConfigError;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTable {
    name: Spanned<String>,
    #[serde(default)]
    password_sha256: Vec<Spanned<String>>,
    nopass: Option<Spanned<bool>>,
    #[serde(default)]
    commands: Vec<Spanned<String>>,
    #[serde(default)]
    keys: Vec<Spanned<String>>,
    enabled: Option<bool>,
}

impl Reader<'_> {
    pub(super) fn users(&self, tables: &[UserTable]) -> Result<Users, ConfigError> {
        let mut users: Vec<User> = Vec::new();
        for table in tables {
            let (name, place) = (table.name.get_ref(), Some(table.name.span().start));
            if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
                let reason = format!(
                    "{name:?} cannot be the name of a user: a name is not empty, and has no spaces \
                     or control characters"
                );
                return self.invalid(place, reason);
            }
            if users.iter().any(|other| other.name == *name) {
                return self.invalid(place, format!("there are two users called '{name}'"));
            }
            users.push(self.user(table)?);
        }
        Ok(Users::new(users))
    }

    fn user(&self, table: &UserTable) -> Result<User, ConfigError> {
        let name = table.name.get_ref();
        let mut user = User::new(name);
        user.enabled = table.enabled.unwrap_or(true);
        user.nopass = table.nopass.as_ref().is_some_and(|nopass| *nopass.get_ref());
        let mut add = |texts: &[Spanned<String>],
                       add: fn(&mut User, &str) -> Result<(), RuleError>| {
            texts.iter().try_for_each(|text| {
                add(&mut user, text.get_ref()).or_else(|error: RuleError| {
                    self.invalid(Some(text.span().start), format!("user '{name}': {error}"))
                })
            })
        };
        add(&table.password_sha256, User::add_hash)?;
        add(&table.commands, User::add_rule)?;
        add(&table.keys, User::add_keys)?;
        if user.nopass && !user.hashes.is_empty() {
            let place = table.nopass.as_ref().map(|nopass| nopass.span().start);
            let reason = format!(
                "user '{name}': nopass = true makes password_sha256 pointless; remove one of them"
            );
            return self.invalid(place, reason);
        }
        if user.enabled && !user.nopass && user.hashes.is_empty() {
            let reason = format!(
                "user '{name}' has no password, so that nobody could log in as it; give it \
                 password_sha256, or nopass = true"
            );
            return self.invalid(Some(table.name.span().start), reason);
        }
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let text = format!("[[user]]\nname = 'alice'\n{text}");
        ClusterSpec::parse("s.toml", &text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn users_are_read() {
        let hash = "0".repeat(64);
        let text = format!(
            "password_sha256 = ['#{hash}']\ncommands = ['+@all', '-@dangerous']\nkeys = ['cart:*']\n\
             [[user]]\nname = 'default'\nenabled = false"
        );
        let users = parse(&text).unwrap().users;
        let lines: Vec<String> = users.iter().map(ToString::to_string).collect();
        let alice = format!("user alice on #{hash} ~cart:* resetchannels +@all -@dangerous");
        assert_eq!(lines, [alice.as_str(), "user default off resetchannels -@all"]);
    }

    #[test]
    fn rules_without_use_are_warned_about() {
        let spec = parse("nopass = true\ncommands = ['+@all', '-flushall', '-get']").unwrap();
        let warning = "user 'alice': '-flushall' removes a command that does not exist";
        assert_eq!(spec.warnings(), [warning]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, reason) in [
            ("", "s.toml, line 2: user 'alice' has no password"),
            ("password_sha256 = ['abc']", "line 3: user 'alice': a password's hash is 64 hex"),
            ("nopass = true\ncommands = [\n'+get',\n'+gte'\n]", "line 6: user 'alice': '+gte'"),
            ("nopass = true\ncommands = ['get']", "line 4: user 'alice': 'get' is no rule"),
            ("nopass = true\nkeys = ['a b']", "line 4: user 'alice': 'a b' is no pattern"),
            ("nopass = true\nkeys = ['a', 'resetkeys']", "line 4: user 'alice': 'resetkeys' is no"),
            (
                "nopass = true\n[[user]]\nname = 'alice'",
                "line 5: there are two users called 'alice'",
            ),
            (
                "nopass = true\n[[user]]\nname = 'a b'",
                "line 5: \"a b\" cannot be the name of a user",
            ),
            ("password = 'x'", "password"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let both = format!("password_sha256 = ['{}']\nnopass = true", "0".repeat(64));
        let error = parse(&both).unwrap_err();
        assert!(error.contains("line 4: user 'alice': nopass = true makes"), "{error}");
    }
}
