//! Binding of a module's stores to spaces.

use solera_commands::similar;
use solera_config::Spaces;
use solera_levels::Level;
use solera_mixt::binding::{BindError, Bindings, Module};
use solera_mixt::store::{Database, StoreError};
use solera_program::types::StoreId;

use crate::own::Own;
use crate::request::Binds;
use crate::{Store, databases};

/// Binds a module's stores to spaces. A store that `binds` does not name is bound to the space of
/// its own name. A space of another database is written `STORE/SPACE`.
///
/// # Errors
/// The error reply, with a suggestion.
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
    // A speculative space takes all stores of a module or none.
    let speculates = program.stores.iter().all(|it| it.accepts.contains(&Level::Speculative));
    let speculative = own.speculative().filter(|_| speculates);
    let error_reply = |store: &str, error: &str| {
        let accepts = program.stores.iter().find(|found| *found.name == *store);
        let accepts = accepts.map_or(&[][..], |found| found.accepts.as_slice());
        let mut all = levels(own, stores);
        all.extend(speculative.iter().map(|name| (name.clone(), Level::Speculative)));
        let hint = suggestion(store, &wanted(store), accepts, &all);
        format!("BADBIND {error}; {hint}")
    };
    let unnamed = program.stores.iter().map(|store| &*store.name);
    let unnamed = unnamed.filter(|store| binds.iter().all(|(bound, _)| bound != store));
    let named = binds.iter().map(|(store, space)| (store.as_str(), space.as_str()));
    let all = named.chain(unnamed.map(|store| (store, store))).map(|(store, space)| {
        let (index, space) =
            place(store, space, own, stores).map_err(|error| error_reply(store, &error))?;
        Ok((store, index, space))
    });
    let all = all.collect::<Result<Vec<_>, String>>()?;
    let bound = Bindings::new(program, &databases(own.clone(), stores), &all);
    bound.map_err(|error| match &error {
        BindError::NoSpace { store, .. } | BindError::TooWeak { store, .. } => {
            error_reply(store, &error.to_string())
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

/// Returns all spaces with their levels, by the names that BIND takes.
fn levels(own: &Own, stores: &[Store]) -> Vec<(String, Level)> {
    let spaces = own.names().filter_map(|name| Some((name.to_owned(), own.level(name)?)));
    let others = stores.iter().flat_map(|store| {
        let database = store.database.name();
        let level =
            move |space: &str| Some((format!("{database}/{space}"), store.database.level(space)?));
        store.spaces.iter().filter_map(move |space| level(space))
    });
    spaces.chain(others).collect()
}

/// Returns the spaces to which a store may be bound, and the one that was probably meant.
fn suggestion(store: &str, wanted: &str, accepts: &[Level], all: &[(String, Level)]) -> String {
    let matching = all.iter().filter(|(_, level)| accepts.contains(level));
    let matching: Vec<&str> = matching.map(|(name, _)| name.as_str()).collect();
    if matching.is_empty() {
        let all: Vec<_> = all.iter().map(|(name, level)| format!("{name} ({level})")).collect();
        let usable = |level: &&Level| Spaces::serves(**level) && **level != Level::Speculative;
        let served = accepts.iter().filter(usable);
        let declared = served.map(Level::to_string).collect::<Vec<_>>().join(" or ");
        return format!(
            "none of the spaces {} matches: add one that is {declared} to solera.toml, or declare `{store}` weaker",
            all.join(", ")
        );
    }
    // The user may have omitted the name of the database or that of the space within it.
    let is_part = |name: &&&str| name.split('/').any(|part| part == wanted);
    let meant = matching
        .iter()
        .find(is_part)
        .copied()
        .or_else(|| similar(wanted, matching.iter().copied()))
        .or_else(|| {
            let is_speculative = |(_, level): &&(String, Level)| *level == Level::Speculative;
            let fits = accepts.contains(&Level::Speculative);
            all.iter().find(is_speculative).filter(|_| fits).map(|(name, _)| name.as_str())
        });
    let matching = matching.join(", ");
    match meant {
        Some(name) => format!("did you mean BIND {store}={name}? matching spaces: {matching}"),
        None => format!("bind it by BIND {store}=SPACE to one of these spaces: {matching}"),
    }
}

/// Asks the databases whether their spaces have the operations that a module's stores declare.
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
        let database = databases.iter().find(|found| found.name() == place.database);
        let database = database.expect("it is bound to one of the databases");
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
                "UNAVAILABLE {place} cannot be checked as the store `{}`: {other}; \
                 nothing was loaded",
                store.name
            ),
        })?;
    }
    Ok(())
}

/// Returns the index of the database that a space is in, and the space's name there.
fn place<'a>(
    store: &str,
    space: &'a str,
    own: &Own,
    stores: &[Store],
) -> Result<(usize, &'a str), String> {
    if let Some(why) = own.why_unusable(space) {
        return Err(format!("the store `{store}` cannot be bound to {why}"));
    }
    let is_own = own.names().any(|name| name == space);
    let Some((database, foreign)) = space.split_once('/').filter(|_| !is_own) else {
        return Ok((0, space));
    };
    let names = || stores.iter().map(|store| store.database.name());
    match names().position(|name| *name == *database) {
        Some(at) => Ok((at + 1, foreign)),
        None => {
            let names: Vec<_> = names().map(|name| name.to_string()).collect();
            let there = match names.as_slice() {
                [] => "there are none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            Err(format!(
                "the store `{store}` cannot be bound to {space}: solera.toml has no [[store]] '{}'; {there}",
                database.escape_debug()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_spaces_are_listed_after_the_probable_one() {
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
            ("log", "did you mean BIND s=cache/log? matching spaces: "),
            ("cache", "did you mean BIND s=cache/log? matching spaces: "),
            ("cache/hit", "did you mean BIND s=cache/hits? matching spaces: "),
            ("audti", "did you mean BIND s=audit? matching spaces: "),
            ("elsewhere", "bind it by BIND s=SPACE to one of these spaces: "),
        ] {
            assert_eq!(suggestion("s", wanted, &every, &all), format!("{meant}{fit}"), "{wanted}");
        }
        let strong = suggestion("s", "stock", &[Level::Linearizable], &all);
        assert_eq!(strong, "did you mean BIND s=shop/stock? matching spaces: shop/stock");
        let speculative = [&all[4..], &[("fast".to_owned(), Level::Speculative)]].concat();
        let either = [Level::Linearizable, Level::Speculative];
        for (wanted, meant) in [("s", "fast"), ("stock", "shop/stock")] {
            let hint = suggestion("s", wanted, &either, &speculative);
            let expected =
                format!("did you mean BIND s={meant}? matching spaces: shop/stock, fast");
            assert_eq!(hint, expected);
        }
        let none = suggestion("s", "audit", &[Level::Linearizable], &all[..2]);
        assert_eq!(
            none,
            "none of the spaces audit (eventual), mail (causal) matches: add one that is linearizable to solera.toml, or \
             declare `s` weaker"
        );
    }
}
