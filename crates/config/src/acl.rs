//! Users and their rights, modelled on Redis' access control lists.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use solera_commands::{CATEGORIES, Command, Unit, lookup};
use solera_data::Operation;
use solera_data::pattern::{matches, meets};

/// User of a connection before it authenticates.
pub const DEFAULT_USER: &str = "default";

/// SHA-256 hash of a password.
pub type PasswordHash = [u8; 32];

/// Error of an invalid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The rule neither adds nor removes anything.
    Syntax(String),
    /// The command or category does not exist.
    Unknown(String),
    /// The hash is not a SHA-256 in hexadecimal.
    Hash,
    /// The text is not a pattern of keys.
    Keys(String),
    /// A rule of Redis about keys that does not exist here, with advice.
    NotKeys(String, &'static str),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Syntax(rule) => write!(
                f,
                "'{rule}' is no rule for commands; rules are as +get, -get, +client|list, +@read, \
                 -@dangerous, +@all"
            ),
            RuleError::Unknown(rule) => {
                write!(f, "'{rule}': there is no such command or category")
            }
            RuleError::Hash => write!(
                f,
                "a password's hash is 64 hexadecimal digits; `solera user hash` makes one from a \
                 password"
            ),
            RuleError::Keys(pattern) => write!(
                f,
                "'{pattern}' is no pattern of keys; patterns are as cart:*, ~cart:*, %R~cart:*, \
                 %W~cart:*"
            ),
            RuleError::NotKeys(rule, advice) => write!(
                f,
                "'{rule}' is no pattern of keys: {advice}; for keys of this name write '~{rule}'"
            ),
        }
    }
}

/// Keys that a user may read, write, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Keys {
    pattern: Vec<u8>,
    read: bool,
    write: bool,
}

/// Returns advice for rules about keys or channels that Redis has and users might write here, too.
fn advice(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "resetkeys" | "nokeys" => {
            return Some("a user has the keys of its list alone, so leave out what it may not use");
        }
        "allchannels" | "resetchannels" => return Some(NO_CHANNELS),
        _ => {}
    }
    match text.as_bytes().first()? {
        b'&' => Some(NO_CHANNELS),
        b'%' => Some("what a pattern is for stands before '~', as in %R~price:*"),
        _ => None,
    }
}

const NO_CHANNELS: &str = "there are no channels, so leave it out";

impl Keys {
    /// Returns whether the user may read or write such keys as required.
    fn suffice(&self, reads: bool, writes: bool) -> bool {
        (self.read || !reads) && (self.write || !writes)
    }

    fn parse(text: &str) -> Result<Keys, RuleError> {
        let marked = text.starts_with('~') || (text.starts_with('%') && text.contains('~'));
        if !marked && let Some(advice) = advice(text) {
            return Err(RuleError::NotKeys(text.to_owned(), advice));
        }
        let (read, write, pattern) = match text.strip_prefix('%').and_then(|t| t.split_once('~')) {
            Some((how, pattern)) => match how.to_ascii_uppercase().as_str() {
                "R" => (true, false, pattern),
                "W" => (false, true, pattern),
                "RW" | "WR" => (true, true, pattern),
                _ => return Err(RuleError::Keys(text.to_owned())),
            },
            None if text.eq_ignore_ascii_case("allkeys") => (true, true, "*"),
            None => (true, true, text.strip_prefix('~').unwrap_or(text)),
        };
        // Redis' own rules contain no spaces, so its tools could not parse such a pattern.
        if pattern.is_empty() || pattern.contains(|c: char| c.is_whitespace() || c == '\0') {
            return Err(RuleError::Keys(text.to_owned()));
        }
        Ok(Keys { pattern: pattern.as_bytes().to_vec(), read, write })
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (self.read, self.write) {
            (true, false) => "%R",
            (false, true) => "%W",
            _ => "",
        };
        write!(f, "{how}~{}", String::from_utf8_lossy(&self.pattern))
    }
}

/// Permission that a user lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Running the command of this name.
    Command(String),
    /// Using one of the keys.
    Key,
}

impl fmt::Display for Denied {
    /// Writes Redis' error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NOPERM this user has no permissions to ")?;
        match self {
            Denied::Command(name) => write!(f, "run the '{name}' command"),
            Denied::Key => write!(f, "access one of the keys used as arguments"),
        }
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Whether it may log in.
    pub enabled: bool,
    /// Whether every password is accepted.
    pub nopass: bool,
    /// Hashes of the passwords with which it may log in.
    pub hashes: Vec<PasswordHash>,
    /// Rules for commands, as given, in order.
    rules: Vec<String>,
    /// Units that the rules allow, by [`Unit::index`].
    allowed: Vec<bool>,
    keys: Vec<Keys>,
}

impl User {
    /// Creates a user without rights.
    pub fn new(name: &str) -> User {
        User {
            name: name.to_owned(),
            enabled: true,
            nopass: false,
            hashes: Vec::new(),
            rules: Vec::new(),
            allowed: vec![false; Unit::all().count()],
            keys: Vec::new(),
        }
    }

    /// Returns the only user of a server without configured users. It needs no password and has all
    /// rights.
    fn anybody() -> User {
        let mut user = User { nopass: true, ..User::new(DEFAULT_USER) };
        user.add_rule("+@all").expect("it is a rule");
        user.add_keys("*").expect("it is a pattern");
        user
    }

    /// Adds a password by its hash, in hexadecimal, with or without `#`.
    ///
    /// # Errors
    /// [`RuleError::Hash`].
    pub fn add_hash(&mut self, text: &str) -> Result<(), RuleError> {
        let digits = text.strip_prefix('#').unwrap_or(text).as_bytes();
        let bytes = HEXLOWER_PERMISSIVE.decode(digits).map_err(|_| RuleError::Hash)?;
        self.hashes.push(PasswordHash::try_from(bytes).map_err(|_| RuleError::Hash)?);
        Ok(())
    }

    /// Adds a pattern of keys that the user may use.
    ///
    /// # Errors
    /// [`RuleError::Keys`] and [`RuleError::NotKeys`].
    pub fn add_keys(&mut self, pattern: &str) -> Result<(), RuleError> {
        self.keys.push(Keys::parse(pattern)?);
        Ok(())
    }

    /// Returns whether the user may read all keys.
    pub fn reads_all_keys(&self) -> bool {
        self.keys.iter().any(|keys| keys.read && keys.pattern == b"*")
    }

    /// Returns the rules that remove commands that do not exist here. They may be Redis' commands,
    /// or mistyped.
    pub(crate) fn idle_rules(&self) -> impl Iterator<Item = &str> {
        let is_idle =
            |rule: &&String| !rule.contains('@') && rule.get(1..).and_then(Unit::find).is_none();
        self.rules.iter().filter(is_idle).map(String::as_str)
    }

    /// Adds a rule for commands. Later rules override earlier ones.
    ///
    /// # Errors
    /// [`RuleError::Syntax`] and [`RuleError::Unknown`].
    pub fn add_rule(&mut self, rule: &str) -> Result<(), RuleError> {
        let lower = rule.to_ascii_lowercase();
        let lower = match lower.as_str() {
            "allcommands" => "+@all",
            "nocommands" => "-@all",
            other => other,
        };
        let unknown = || RuleError::Unknown(rule.to_owned());
        let (allow, what) = match lower.split_at_checked(1) {
            Some(("+", what)) => (true, what),
            Some(("-", what)) => (false, what),
            _ => return Err(RuleError::Syntax(rule.to_owned())),
        };
        match what.strip_prefix('@') {
            Some("all") => {
                self.rules.clear();
                self.allowed.fill(allow);
            }
            Some(category) if CATEGORIES.contains(&category) => {
                self.set(allow, |unit| unit.is_in(category));
            }
            Some(_) => return Err(unknown()),
            None => match Unit::find(what) {
                Some(named) => self.set(allow, |unit| named.contains(unit)),
                // No user can run a command that does not exist, and operators use lists of rules
                // from Redis.
                None if !allow && !what.is_empty() => {}
                None => return Err(unknown()),
            },
        }
        self.rules.push(lower.to_owned());
        Ok(())
    }

    fn set(&mut self, allow: bool, concerns: impl Fn(Unit) -> bool) {
        for unit in Unit::all().filter(|unit| concerns(*unit)) {
            self.allowed[unit.index()] = allow;
        }
    }

    /// Returns whether the user may run a command, or a subcommand such as `acl|list`, regardless
    /// of its arguments.
    pub fn may_run(&self, name: &str) -> bool {
        Unit::find(name).is_some_and(|unit| self.allows(unit))
    }

    /// Returns whether the user may run all commands of a category.
    pub fn may_run_all(&self, category: &str) -> bool {
        Unit::all().filter(|unit| unit.is_in(category)).all(|unit| self.allowed[unit.index()])
    }

    /// Checks whether the user may run a command, or a subcommand, on keys.
    ///
    /// # Errors
    /// The permission that the user lacks.
    pub fn may<'a>(
        &self,
        unit: Unit,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Denied> {
        let command = unit.command();
        // Commands with this flag need no right: an unauthenticated client must be able to
        // authenticate and to quit.
        if !command.has_flag("no_auth") && !self.allows(unit) {
            return Err(Denied::Command(unit.name()));
        }
        let (reads, writes) = (command.reads_keys(), command.writes_keys());
        let allowed = keys.into_iter().all(|key| self.may_use(key, reads, writes));
        if allowed { Ok(()) } else { Err(Denied::Key) }
    }

    fn allows(&self, unit: Unit) -> bool {
        // Most commands have no subcommands with rights of their own.
        self.allowed[unit.index()]
            && (!unit.has_parts() || unit.parts().all(|part| self.allowed[part.index()]))
    }

    fn may_use(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        self.keys.iter().any(|keys| keys.suffice(reads, writes) && matches(&keys.pattern, key))
    }

    /// Returns whether the user may use some key with this prefix in the way that a command does.
    pub fn may_use_some(&self, start: &[u8], command: &Command) -> bool {
        let (reads, writes) = (command.reads_keys(), command.writes_keys());
        self.keys.iter().any(|keys| keys.suffice(reads, writes) && meets(&keys.pattern, start))
    }

    /// Returns whether the user may use a key in the way that a command does.
    pub fn may_use_for(&self, key: &[u8], command: &Command) -> bool {
        self.may_use(key, command.reads_keys(), command.writes_keys())
    }

    /// Returns the patterns of keys, each with the kinds of operations that the user may execute on
    /// such keys, as bits ([`Operation::bit`]).
    pub fn operations(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let commands =
            Operation::ALL.map(|operation| (operation, lookup(operation.name().as_bytes())));
        self.keys.iter().map(move |keys| {
            let may = |(operation, command): &(Operation, Option<&Command>)| {
                let command = command.filter(|command| self.may_run(command.name))?;
                keys.suffice(command.reads_keys(), command.writes_keys()).then(|| operation.bit())
            };
            (&*keys.pattern, commands.iter().filter_map(may).fold(0, |all, bit| all | bit))
        })
    }

    /// Returns whether the user may run a command on a key, regardless of its other arguments.
    pub fn may_run_on(&self, name: &str, key: &[u8]) -> bool {
        Unit::find(name).is_some_and(|unit| self.may(unit, [key]).is_ok())
    }

    /// Returns the hashes in hexadecimal.
    pub fn hashes_in_hex(&self) -> impl Iterator<Item = String> {
        self.hashes.iter().map(|hash| HEXLOWER.encode(hash))
    }

    /// Returns the rules for commands, in one line.
    pub fn rules(&self) -> String {
        match self.rules.first().map(String::as_str) {
            Some("+@all" | "-@all") => self.rules.join(" "),
            Some(_) => format!("-@all {}", self.rules.join(" ")),
            None => "-@all".to_owned(),
        }
    }

    /// Returns the patterns of keys, in one line.
    pub fn keys(&self) -> String {
        self.keys.iter().map(Keys::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for User {
    /// Writes the user as ACL LIST shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} {}", self.name, if self.enabled { "on" } else { "off" })?;
        if self.nopass {
            write!(f, " nopass")?;
        }
        self.hashes_in_hex().try_for_each(|hash| write!(f, " #{hash}"))?;
        if !self.keys.is_empty() {
            write!(f, " {}", self.keys())?;
        }
        // There are no channels.
        write!(f, " resetchannels {}", self.rules())
    }
}

/// All users of a cluster, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    users: BTreeMap<String, Arc<User>>,
    guarded: bool,
}

impl Default for Users {
    /// Returns the default user alone, without a password.
    fn default() -> Self {
        let anybody = Arc::new(User::anybody());
        Users { users: BTreeMap::from([(DEFAULT_USER.to_owned(), anybody)]), guarded: false }
    }
}

impl Users {
    /// Creates the set of these users; if there are none, no client needs a password.
    pub fn new(users: Vec<User>) -> Users {
        if users.is_empty() {
            return Users::default();
        }
        let named = users.into_iter().map(|user| (user.name.clone(), Arc::new(user)));
        Users { users: named.collect(), guarded: true }
    }

    /// Returns whether any user is configured.
    pub fn are_configured(&self) -> bool {
        self.guarded
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Returns the default user if clients without AUTH have its rights.
    pub fn without_login(&self) -> Option<&User> {
        self.get(DEFAULT_USER).map(|user| &**user).filter(|user| user.nopass && user.enabled)
    }

    /// Returns all users, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.users.values().map(|user| &**user)
    }
}

#[cfg(test)]
mod tests {
    use solera_commands::lookup;

    use super::*;

    fn user(rules: &[&str], keys: &[&str]) -> User {
        let mut user = User::new("x");
        rules.iter().for_each(|rule| user.add_rule(rule).unwrap());
        keys.iter().for_each(|pattern| user.add_keys(pattern).unwrap());
        user
    }

    fn may(user: &User, line: &str) -> Result<(), Denied> {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let command = lookup(arguments[0]).unwrap();
        user.may(Unit::of(command, arguments.get(1).copied()), command.keys(arguments.into_iter()))
    }

    fn no(command: &str) -> Result<(), Denied> {
        Err(Denied::Command(command.to_owned()))
    }

    #[test]
    fn operations_are_those_that_the_commands_permit() {
        let user = user(&["+@all", "-sadd"], &["%R~a:*", "%W~b:*", "%RW~*:c", "d"]);
        for operation in Operation::ALL {
            let command = lookup(operation.name().as_bytes());
            for key in [&b"a:1"[..], b"b:1", b"a:c", b"d", b"e"] {
                let allowed = command.is_some_and(|command| {
                    user.may_run(command.name) && user.may_use_for(key, command)
                });
                let listed = user.operations().any(|(pattern, operations)| {
                    matches(pattern, key) && operations & operation.bit() != 0
                });
                assert_eq!(listed, allowed, "{operation:?} {}", key.escape_ascii());
            }
        }
        let all = user.operations().fold(0, |all, (_, operations)| all | operations);
        assert_eq!(all & Operation::SetAdd.bit(), 0);
        assert_ne!(all & Operation::Add.bit(), 0);
    }

    #[test]
    fn later_rules_win() {
        let nobody = user(&[], &["*"]);
        assert_eq!(may(&nobody, "get a"), no("get"));
        assert_eq!(may(&nobody, "auth x"), Ok(()), "authentication is always permitted");
        let reader = user(&["+@read", "-mget", "+client|setname"], &["*"]);
        for (line, may_run) in [
            ("get a", Ok(())),
            ("mget a", no("mget")),
            ("set a b", no("set")),
            ("client setname x", Ok(())),
            ("client list", no("client|list")),
            ("client foo", no("client")),
        ] {
            assert_eq!(may(&reader, line), may_run, "{line}");
        }
        let careful = user(&["+@all", "-@dangerous", "+INFO"], &["*"]);
        for (line, may_run) in [
            ("client id", Ok(())),
            ("client list", no("client|list")),
            ("config get x", no("config|get")),
            ("config foo", no("config")),
            ("client foo", no("client")),
            ("client kill id 1", no("client|kill")),
            ("info", Ok(())),
            ("solera.site", Ok(())),
            ("acl whoami", Ok(())),
            ("acl list", no("acl|list")),
        ] {
            assert_eq!(may(&careful, line), may_run, "{line}");
        }
        let connection = user(&["+@connection", "-@dangerous", "+client|kill"], &[]);
        assert_eq!(may(&connection, "client kill id 1"), Ok(()));
        assert_eq!(may(&connection, "client reply off"), Ok(()));
        assert_eq!(may(&connection, "client list"), no("client|list"));
        assert_eq!(may(&connection, "client foo"), no("client"), "it may not use all of CLIENT");
        assert_eq!(
            may(&user(&["+client"], &[]), "client foo"),
            Ok(()),
            "the error reports that there is none"
        );
        let container = user(&["+client", "-client|list", "nocommands", "+acl"], &[]);
        assert_eq!(may(&container, "client id"), no("client|id"));
        assert_eq!(may(&container, "acl list"), Ok(()));
    }

    #[test]
    fn every_key_of_a_command_must_match() {
        let user = user(&["+@all"], &["cart:*", "%R~price:*", "%W~log:*"]);
        for (line, may_run) in [
            ("mget cart:1 cart:2", true),
            ("mget cart:1 x", false),
            ("mset cart:1 x cart:2 y", true),
            ("mset cart:1 cart:2 x cart:3", false),
            ("get price:1", true),
            ("set price:1 2", false),
            ("set log:1 x", true),
            ("get log:1", false),
            ("incr log:1", false),
            ("exists log:1 price:1", true),
            ("exists x", false),
            ("solera.level x", false),
            ("del cart:1 price:1", false),
            ("ping", true),
        ] {
            let expected = if may_run { Ok(()) } else { Err(Denied::Key) };
            assert_eq!(may(&user, line), expected, "{line}");
        }
    }

    #[test]
    fn bad_rules_are_refused() {
        let mut user = User::new("x");
        for rule in ["", "get", "@read", "~x", ">pw"] {
            assert_eq!(user.add_rule(rule), Err(RuleError::Syntax(rule.to_owned())));
        }
        for rule in ["+", "-", "+foo", "-@foo", "+client|foo", "+@", "+get|x"] {
            assert_eq!(user.add_rule(rule), Err(RuleError::Unknown(rule.to_owned())));
        }
        for rule in ["resetkeys", "NoKeys", "allchannels", "resetchannels", "&*", "%Rprice:*", "%"]
        {
            let error = user.add_keys(rule).unwrap_err();
            assert!(matches!(&error, RuleError::NotKeys(named, _) if named == rule), "{error}");
        }
        for pattern in ["", "~", "%Z~a", "a b", "%R~"] {
            assert_eq!(user.add_keys(pattern), Err(RuleError::Keys(pattern.to_owned())));
        }
        let (short, other) = ("0".repeat(63), "g".repeat(64));
        for hash in ["", "#", &short, &other, &"é".repeat(32)] {
            assert_eq!(user.add_hash(hash), Err(RuleError::Hash), "{hash}");
        }
        assert_eq!(user, User::new("x"), "nothing of them stays");
    }

    #[test]
    fn unknown_commands_can_be_removed() {
        let user = user(&["+@all", "-FLUSHALL", "-get", "-config|set", "-@dangerous"], &["*"]);
        assert_eq!(user.idle_rules().collect::<Vec<_>>(), ["-flushall", "-config|set"]);
        assert_eq!(may(&user, "set a b"), Ok(()));
        assert_eq!(may(&user, "get a"), no("get"));
    }

    #[test]
    fn rules_of_redis_can_be_escaped_as_keys() {
        let user = user(&["+@all"], &["~resetkeys", "~&*", "~%Rprice"]);
        for key in ["resetkeys", "&x", "%Rprice"] {
            assert_eq!(may(&user, &format!("get {key}")), Ok(()));
        }
        assert_eq!(user.keys(), "~resetkeys ~&* ~%Rprice");
    }

    #[test]
    fn users_are_listed_as_by_redis() {
        let mut bob = user(&["+@read", "-GET"], &["cart:*", "%r~ro:*"]);
        let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
        bob.add_hash(&format!("#{}", hash.to_uppercase())).unwrap();
        let line = format!("user x on #{hash} ~cart:* %R~ro:* resetchannels -@all +@read -get");
        assert_eq!(bob.to_string(), line);
        let users = Users::default();
        let all = users.iter().map(User::to_string).collect::<Vec<_>>();
        assert_eq!(all, ["user default on nopass ~* resetchannels +@all"]);
    }
}
