//! Which spaces a module's stores are.

use solera_commands::similar;
use solera_config::Spaces;
use solera_levels::Level;
use solera_mixt::binding::{BindError, Bindings, Module};
use solera_mixt::store::{Database, StoreError};
use solera_program::types::StoreId;

use crate::own::Own;
use crate::request::Binds;
use crate::{Store, databases};

/// Binds a module's stores: those that are not named to the spaces of their own names. A space of
/// another store is named as `STORE/SPACE`.
///
/// # Errors
/// The text of the error reply, with what could be meant.
pub(crate) fn bind(
    module: &Module,
    binds: &Binds,
    own: &Own,
    stores: &[Store],
) -> Result<Bindings, String> {
    let program = module.program();
    let wanted = |store: &str| {
        let bound = binds.iter().find(|(bound, _)| bound == store);
        bound.map_or(store.to_owned(), |(_, space)| space.clone())
    };
    let told = |store: &str, error: &str| {
        let accepts = program.stores.iter().find(|found| *found.name == *store);
        let accepts = accepts.map_or(&[][..], |found| found.accepts.as_slice());
        let hint = fitting(store, &wanted(store), accepts, &levels(own, stores));
        format!("BADBIND {error}; {hint}")
    };
    let unnamed = program.stores.iter().map(|store| &*store.name);
    let unnamed = unnamed.filter(|store| binds.iter().all(|(bound, _)| bound != store));
    let named = binds.iter().map(|(store, space)| (store.as_str(), space.as_str()));
    let all = named.chain(unnamed.map(|store| (store, store))).map(|(store, space)| {
        let (index, space) =
            place(store, space, own, stores).map_err(|error| told(store, &error))?;
        Ok((store, index, space))
    });
    let all = all.collect::<Result<Vec<_>, String>>()?;
    let bound = Bindings::new(program, &databases(own.clone(), stores), &all);
    bound.map_err(|error| match &error {
        BindError::NoSpace { store, .. } | BindError::TooWeak { store, .. } => {
            told(store, &error.to_string())
        }
        BindError::NoSuchStore(_) => {
            let declared: Vec<_> = program.stores.iter().map(|store| &*store.name).collect();
            match declared.as_slice() {
                [] => format!("BADBIND {error}; it declares none"),
                declared => format!("BADBIND {error}; it declares {}", declared.join(", ")),
            }
        }
        BindError::NotBound(_) | BindError::NoDatabase { .. } => format!("BADBIND {error}"),
    })
}

/// All spaces with their levels, by the names that BIND takes.
fn levels(own: &Own, stores: &[Store]) -> Vec<(String, Level)> {
    let spaces = own.names().filter_map(|name| Some((name.to_owned(), own.level(name)?)));
    let others = stores.iter().flat_map(|store| {
        let database = store.database.describe().name;
        let level =
            move |space: &str| Some((format!("{database}/{space}"), store.database.level(space)?));
        store.spaces.iter().filter_map(move |space| level(space))
    });
    spaces.chain(others).collect()
}

/// Which spaces a store may be bound to, and which of them is meant perhaps.
fn fitting(store: &str, wanted: &str, accepts: &[Level], all: &[(String, Level)]) -> String {
    let fits = all.iter().filter(|(_, level)| accepts.contains(level));
    let fits: Vec<&str> = fits.map(|(name, _)| name.as_str()).collect();
    if fits.is_empty() {
        let all: Vec<_> = all.iter().map(|(name, level)| format!("{name} ({level})")).collect();
        let served = accepts.iter().filter(|level| Spaces::serves(**level));
        let declared = served.map(Level::to_string).collect::<Vec<_>>().join(" or ");
        return format!(
            "no space fits, of {}: add one that is {declared} to solera.toml, or declare `{store}` weaker",
            all.join(", ")
        );
    }
    // Where one is in another database, its own name or that of the database may have been left
    // out.
    let is_part = |name: &&&str| name.split('/').any(|part| part == wanted);
    let meant =
        fits.iter().find(is_part).copied().or_else(|| similar(wanted, fits.iter().copied()));
    let fits = fits.join(", ");
    match meant {
        Some(name) => format!("did you mean BIND {store}={name}? what fits is {fits}"),
        None => format!("bind it by BIND {store}=SPACE to a space that fits: {fits}"),
    }
}

/// Asks the databases whether the operations that a module's stores declare can be what their
/// spaces have.
pub(crate) async fn check_operations(
    module: &Module,
    bindings: &Bindings,
    own: &Own,
    stores: &[Store],
) -> Result<(), String> {
    let program = module.program();
    let databases = databases(own.clone(), stores);
    for (id, store) in (0..).map(StoreId).zip(&program.stores) {
        let place = &bindings.of(id).place;
        let database = databases.iter().find(|found| found.describe().name == place.database);
        let database = database.expect("it is bound to one of these");
        let checked = database.check_operations(program, id, &place.space).await;
        checked.map_err(|error| match error {
            StoreError::Refused(why) | StoreError::Denied(why) => {
                let name = &store.name;
                format!(
                    "BADBIND the store `{name}` cannot be {place}: {why}; bind it by BIND {name}=SPACE to a space that \
                     has its operations as the module declares them, or change the declaration"
                )
            }
            other => format!(
                "UNAVAILABLE {place} cannot be asked whether it can be the store `{}`: {other}; \
                 nothing was loaded",
                store.name
            ),
        })?;
    }
    Ok(())
}

/// Which database a space is in, and what it is called there.
fn place<'a>(
    store: &str,
    space: &'a str,
    own: &Own,
    stores: &[Store],
) -> Result<(usize, &'a str), String> {
    if own.is_unusable(space) {
        return Err(format!(
            "the store `{store}` is to be {space}, which runs a protocol that has no transactions"
        ));
    }
    let is_own = own.names().any(|name| name == space);
    let Some((database, foreign)) = space.split_once('/').filter(|_| !is_own) else {
        return Ok((0, space));
    };
    let names = || stores.iter().map(|store| store.database.describe().name);
    match names().position(|name| *name == *database) {
        Some(at) => Ok((at + 1, foreign)),
        None => {
            let names: Vec<_> = names().map(|name| name.to_string()).collect();
            let there = match names.as_slice() {
                [] => "there are none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            Err(format!(
                "the store `{store}` is to be {space}, but solera.toml has no [[store]] '{}'; {there}",
                database.escape_debug()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_named_and_what_is_meant_first() {
        let all = [
            ("audit", Level::Eventual),
            ("mail", Level::Causal),
            ("cache/log", Level::Eventual),
            ("cache/hits", Level::Eventual),
            ("shop/stock", Level::Linearizable),
        ]
        .map(|(name, level)| (name.to_owned(), level));
        let every = [Level::Eventual, Level::Causal, Level::Linearizable];
        let fit = "audit, mail, cache/log, cache/hits, shop/stock";
        for (wanted, meant) in [
            ("log", "did you mean BIND s=cache/log? what fits is "),
            ("cache", "did you mean BIND s=cache/log? what fits is "),
            ("cache/hit", "did you mean BIND s=cache/hits? what fits is "),
            ("audti", "did you mean BIND s=audit? what fits is "),
            ("elsewhere", "bind it by BIND s=SPACE to a space that fits: "),
        ] {
            assert_eq!(fitting("s", wanted, &every, &all), format!("{meant}{fit}"), "{wanted}");
        }
        let strong = fitting("s", "stock", &[Level::Linearizable], &all);
        assert_eq!(strong, "did you mean BIND s=shop/stock? what fits is shop/stock");
        let none = fitting("s", "audit", &[Level::Linearizable], &all[..2]);
        assert_eq!(
            none,
            "no space fits, of audit (eventual), mail (causal): add one that is linearizable to solera.toml, or \
             declare `s` weaker"
        );
    }
}
