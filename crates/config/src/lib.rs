//! The configuration of a cluster, and the reader of `solera.toml`, which rejects contradictory
//! settings with file and line.

mod acl;
mod durability;
mod error;
mod log;
mod malformed;
mod modules;
mod nodes;
mod placed;
mod protocol;
mod reader;
#[doc(hidden)]
pub mod sample;
mod settings;
mod spaces;
mod spec;
mod stores;
mod timestamps;
mod tls;
mod wan;

pub use acl::{DEFAULT_USER, Denied, PasswordHash, RuleError, User, Users};
pub use durability::Durability;
pub use error::ConfigError;
pub use log::{LogFormat, LogLevel, LogSpec, areas};
pub use modules::ModuleSpec;
pub use nodes::{HostPort, NodeSpec};
pub use placed::Placed;
pub use protocol::Baseline;
pub use reader::MAX_CONNECTIONS;
pub use settings::{SETTINGS, Setting, SettingDefault, SettingSection};
pub use spaces::{
    Answer, Class, ErrorBound, KeyBound, Relation, Runs, Space, SpaceError, SpaceHome, SpaceType,
    Spaces,
};
pub use spec::{ClusterSpec, Overrides, SiteSpec};
pub use stores::{PasswordSource, StoreSpace, StoreSpec};
pub use timestamps::Timestamps;
pub use tls::{ClientTls, NamedFile, TlsFiles};
pub use wan::{Wan, WanError};
