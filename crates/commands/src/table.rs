//! The table of the supported commands, by family.

use crate::command::Command;

mod connection;
mod generic;
mod hash;
mod server;
mod set;
mod solera;
mod string;
mod transactions;

/// Rows of the table: identifier, name, arguments, arity, flags, first and last key and step and,
/// where there are keys, their use; version, summary.
macro_rules! family {
    ($group:literal: $($id:ident $name:literal $arguments:literal $arity:literal $flags:literal
        ($first:literal, $last:literal, $step:literal $($key_flags:literal)?)
        $since:literal $summary:literal;)*) => {
        pub(super) const FAMILY: &[$crate::Command] = &[$($crate::Command {
            id: $crate::CommandId::$id,
            name: $name,
            arguments: $arguments,
            arity: $arity,
            flags: $flags,
            first_key: $first,
            last_key: $last,
            step: $step,
            key_flags: concat!($($key_flags)?),
            group: $group,
            since: $since,
            summary: $summary,
        }),*];
    };
}
use family;

/// Families, in the order of [`CommandId`](crate::CommandId).
const FAMILIES: [&[Command]; 8] = [
    connection::FAMILY,
    server::FAMILY,
    generic::FAMILY,
    string::FAMILY,
    set::FAMILY,
    hash::FAMILY,
    transactions::FAMILY,
    solera::FAMILY,
];

const COUNT: usize = {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

const TABLE: [Command; COUNT] = {
    let mut all = [FAMILIES[0][0]; COUNT];
    let (mut filled, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].len() {
            all[filled] = FAMILIES[family][row];
            // A command's identifier is its index.
            assert!(all[filled].id as usize == filled);
            // A command with keys specifies their use.
            assert!((all[filled].first_key > 0) != all[filled].key_flags.is_empty());
            filled += 1;
            row += 1;
        }
        family += 1;
    }
    all
};
static ALL: [Command; COUNT] = TABLE;

/// All commands, in the order of [`CommandId`](crate::CommandId).
pub static COMMANDS: &[Command] = &ALL;

/// Slots of the hash table; many times the number of commands, so that the compiler soon finds a
/// seed without collisions.
const SLOTS: usize = 512;
const EMPTY: u8 = u8::MAX;

/// A seed that gives every command a slot of its own, and the commands by slot. The compiler finds
/// it, and fails if two commands have the same fingerprint.
const HASH: (u64, [u8; SLOTS]) = {
    assert!(COUNT < EMPTY as usize);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut tries = 0;
    loop {
        assert!(tries < 1000, "two commands have the same fingerprint");
        if let Some(slots) = slots(seed) {
            break (seed, slots);
        }
        seed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(2) | 1;
        tries += 1;
    }
};
static SLOT_OF: [u8; SLOTS] = HASH.1;

const fn slots(seed: u64) -> Option<[u8; SLOTS]> {
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < COUNT {
        let slot = slot(seed, TABLE[index].name.as_bytes());
        if slots[slot] != EMPTY {
            return None;
        }
        slots[slot] = index as u8;
        index += 1;
    }
    Some(slots)
}

/// Hashes the length and four letters of a name of three letters or more, in any case.
const fn slot(seed: u64, name: &[u8]) -> usize {
    let len = name.len();
    let letters = u32::from_le_bytes([name[0], name[len - 3], name[len - 2], name[len - 1]]);
    let fingerprint = ((letters | 0x2020_2020) as u64) << 8 | (len as u64 & 0xff);
    (fingerprint.wrapping_mul(seed) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// Finds a command by its name, in any case.
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    if name.len() < 3 {
        return None;
    }
    let command = ALL.get(usize::from(SLOT_OF[slot(HASH.0, name)]))?;
    command.name.as_bytes().eq_ignore_ascii_case(name).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for (index, command) in ALL.iter().enumerate() {
            assert_eq!(command.id as usize, index);
            assert_eq!(lookup(command.name.as_bytes()), Some(command));
            assert_eq!(lookup(command.name.to_uppercase().as_bytes()), Some(command));
        }
    }

    #[test]
    fn unknown_names_are_not_found() {
        let long = [b'x'; 1000];
        let none: [&[u8]; 8] =
            [b"", b"g", b"ge", b"getx", b"gxt", b"solera\x0ebegin", b"g\0t", &long];
        for name in none {
            assert_eq!(lookup(name), None, "{}", name.escape_ascii());
        }
    }
}
