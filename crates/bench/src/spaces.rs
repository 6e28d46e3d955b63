//! Checks that a running cluster has the spaces that a workload requires.

use solera::{Error, Value};
use solera_config::{ClusterSpec, Overrides};
use solera_levels::Level;

use crate::error::BenchError;
use crate::place::TargetCluster;
use crate::session::Strong;

/// A space of a cluster, as SOLERA.SPACES reports it.
#[derive(Debug, Default, PartialEq)]
struct Found {
    name: String,
    prefix: String,
    level: String,
    strong: Vec<String>,
    conflicts: Vec<Vec<String>>,
    /// Type of its keys, and their error bound.
    of_type: Option<String>,
    error: Option<String>,
}

/// Checks that a running cluster has the spaces of `needed`, in the format of `solera.toml`. If
/// strong transactions run causally, checks instead that the keys of these spaces are in no space
/// that rejects this.
///
/// # Errors
/// Fails with the differences and the missing lines.
pub(crate) async fn check(
    place: &TargetCluster,
    strong: Strong,
    needed: &str,
) -> Result<(), BenchError> {
    if !place.is_remote() {
        return Ok(());
    }
    let found = spaces_at(place).await?;
    match strong {
        Strong::Solera => has_all(&found, needed),
        Strong::Causal => has_none(&found, needed),
    }
}

/// Returns the prefix of a space of a cluster.
///
/// # Errors
/// Fails if there is no such space.
pub(crate) async fn prefix_of(place: &TargetCluster, space: &str) -> Result<String, BenchError> {
    let found = spaces_at(place).await?;
    let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
    let found = found.into_iter().find(|found| found.name == space);
    found.map(|found| found.prefix).ok_or_else(|| {
        let names = names.join(", ");
        BenchError::Settings(format!("there is no space '{space}'; the spaces are {names}"))
    })
}

/// A space of a cluster.
pub(crate) struct SpaceOf {
    pub(crate) name: String,
    pub(crate) prefix: String,
}

/// Returns the speculative space of a cluster.
///
/// # Errors
/// Fails with the lines of `needed`, in the format of `solera.toml`, if there is none.
pub(crate) async fn speculative(
    place: &TargetCluster,
    needed: &str,
) -> Result<SpaceOf, BenchError> {
    let found = spaces_at(place).await?.into_iter().find(|found| found.level == "speculative");
    let differences = vec!["there is no space of level speculative".to_owned()];
    found
        .map(|Found { name, prefix, .. }| SpaceOf { name, prefix })
        .ok_or_else(|| BenchError::SpacesMissing { differences, lines: format!("\n{needed}") })
}

/// Returns the spaces of a running cluster.
async fn spaces_at(place: &TargetCluster) -> Result<Vec<Found>, BenchError> {
    let asked = async { place.connect(0).await?.command(&["SOLERA.SPACES"]).await };
    let reply = asked.await.map_err(BenchError::Connect)?;
    read(&reply)
        .ok_or_else(|| BenchError::Connect(Error::UnexpectedReply("to SOLERA.SPACES".to_owned())))
}

fn has_all(found: &[Found], needed: &str) -> Result<(), BenchError> {
    let (mut differences, mut lines) = (Vec::new(), String::new());
    for space in spaces_of(needed)? {
        let prefix = &space.prefix;
        let difference = match found.iter().find(|found| found.prefix == *prefix) {
            None => format!("there is no space for keys beginning with '{prefix}'"),
            Some(found) if found.level != space.level => {
                format!(
                    "space '{}' ('{prefix}') is {}, not {}",
                    found.name, found.level, space.level
                )
            }
            Some(found)
                if (&found.strong, &found.conflicts) != (&space.strong, &space.conflicts) =>
            {
                format!(
                    "in space '{}' ('{prefix}') other commands are strong or conflict",
                    found.name
                )
            }
            Some(found) if (&found.of_type, &found.error) != (&space.of_type, &space.error) => {
                format!(
                    "space '{}' ('{prefix}') has {}, not {}",
                    found.name,
                    found.bounds(),
                    space.bounds()
                )
            }
            Some(_) => continue,
        };
        differences.push(difference);
        let table = needed.split_inclusive("[[space]]").collect::<Vec<_>>();
        let quoted = format!("prefix = \"{prefix}\"");
        let table = table.into_iter().find(|table| table.contains(&quoted)).unwrap_or_default();
        let table = table.trim_end_matches("[[space]]").trim();
        lines.push_str(&format!("\n[[space]]\n{table}\n"));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(BenchError::SpacesMissing { differences, lines }),
    }
}

fn has_none(found: &[Found], needed: &str) -> Result<(), BenchError> {
    for space in spaces_of(needed)? {
        let holds = |found: &&Found| space.prefix.starts_with(&found.prefix);
        let holder = found.iter().filter(holds).max_by_key(|found| found.prefix.len());
        if let Some(Found { name, level, .. }) = holder.filter(|found| found.is_strong()) {
            return Err(BenchError::SpaceStrong {
                space: name.clone(),
                level: level.clone(),
                prefix: space.prefix,
            });
        }
    }
    Ok(())
}

impl Found {
    /// Returns whether some of its commands are strong.
    fn is_strong(&self) -> bool {
        ["por", "linearizable"].contains(&self.level.as_str())
    }

    /// Describes its type and error bound.
    fn bounds(&self) -> String {
        let of_type = self.of_type.as_ref().map(|of_type| format!("type {of_type}"));
        let error = self.error.as_ref().map(|error| format!("an error bound of {error}"));
        match (of_type, error) {
            (Some(of_type), Some(error)) => format!("{of_type} and {error}"),
            (of_type, _) => of_type.unwrap_or_else(|| "no type".to_owned()),
        }
    }
}

/// Returns the spaces of a configuration, except the default space.
fn spaces_of(text: &str) -> Result<Vec<Found>, BenchError> {
    let spec = ClusterSpec::parse("the benchmark's spaces", text, Overrides::default());
    let spec = spec.map_err(|error| BenchError::Start(error.to_string()))?;
    let spaces = spec.spaces.iter().filter(|space| !space.prefix.is_empty());
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let found = spaces.map(|space| {
        // SOLERA.SPACES returns the commands and conflicts of spaces that declare them.
        let declares = space.level == Level::Por;
        let (strong, conflicts) = match declares {
            true => (space.relation.strong(), space.relation.conflicts()),
            false => Default::default(),
        };
        Found {
            name: space.name.clone(),
            prefix: space.prefix.clone(),
            level: space.level.name().to_owned(),
            strong: owned(&strong),
            conflicts: conflicts.iter().map(|pair| owned(pair)).collect(),
            of_type: space.of_type.map(|of_type| of_type.to_string()),
            error: space.error.map(|error| error.tolerance()),
        }
    });
    Ok(found.collect())
}

/// Parses the reply to SOLERA.SPACES.
fn read(reply: &Value) -> Option<Vec<Found>> {
    let Value::Array(spaces) = reply else { return None };
    spaces.iter().map(space).collect()
}

fn space(value: &Value) -> Option<Found> {
    let Value::Map(settings) = value else { return None };
    let mut found = Found::default();
    for (name, value) in settings {
        match text(name)?.as_str() {
            "name" => found.name = text(value)?,
            "prefix" => found.prefix = text(value)?,
            "level" => found.level = text(value)?,
            "type" => found.of_type = Some(text(value)?),
            "error" => found.error = Some(text(value)?),
            "strong" => found.strong = texts(value)?,
            "conflicts" => {
                let Value::Array(pairs) = value else { return None };
                found.conflicts = pairs.iter().map(texts).collect::<Option<_>>()?;
            }
            // A later version may report more fields.
            _ => {}
        }
    }
    Some(found)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let Value::Array(values) = value else { return None };
    values.iter().map(text).collect()
}

fn text(value: &Value) -> Option<String> {
    let Value::Bulk(bytes) = value else { return None };
    String::from_utf8(bytes.clone()).ok()
}
