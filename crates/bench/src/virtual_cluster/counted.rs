//! Many copies of the function that runs a step, so that callgrind counts the instructions of each
//! class separately.

/// Function that runs a step.
pub(crate) type Run = fn(&mut dyn FnMut());

/// Part of each function's name, before its block and its index.
const PATH: &str = "virtual_cluster::counted::";

macro_rules! functions {
    ($($name:ident $place:literal)*) => {
        $(
            #[inline(never)]
            pub(super) fn $name(step: &mut dyn FnMut()) {
                step();
                // Without this, the compiler merges all functions into one.
                std::hint::black_box(BLOCK * 16 + $place);
            }
        )*
        pub(super) const FUNCTIONS: [Run; 16] = [$($name),*];
    };
}

macro_rules! blocks {
    ($($name:ident $block:literal)*) => {
        $(
            mod $name {
                use super::*;

                const BLOCK: usize = $block;
                functions! {
                    f0 0 f1 1 f2 2 f3 3 f4 4 f5 5 f6 6 f7 7
                    f8 8 f9 9 f10 10 f11 11 f12 12 f13 13 f14 14 f15 15
                }
            }
        )*
        const BLOCKS: [[Run; 16]; 16] = [$($name::FUNCTIONS),*];
    };
}

blocks! {
    b0 0 b1 1 b2 2 b3 3 b4 4 b5 5 b6 6 b7 7
    b8 8 b9 9 b10 10 b11 11 b12 12 b13 13 b14 14 b15 15
}

/// Number of functions.
pub(crate) const FUNCTIONS: usize = 256;

/// Returns the function of this number.
pub(crate) fn function(number: usize) -> Run {
    BLOCKS[number / 16][number % 16]
}

/// Returns for each function the number of calls, and its inclusive instructions.
///
/// In the output of callgrind, `cfn=` names a callee, `calls=` gives the number of calls, and the
/// second number of the line after it is its inclusive cost. A name is written once, with a number
/// in brackets; later, this number stands for the name.
pub(crate) fn read_callgrind(output: &str) -> Vec<(u64, u64)> {
    let mut names = std::collections::BTreeMap::new();
    let mut totals = vec![(0, 0); FUNCTIONS];
    let (mut callee, mut calls) = (None, None);
    for line in output.lines() {
        if let Some(times) = calls.take() {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if let (Some(number), Some(cost)) = (callee, cost) {
                let (all_calls, instructions): &mut (u64, u64) = &mut totals[number];
                *all_calls += times;
                *instructions += cost;
            }
        } else if let Some(rest) = line.strip_prefix("cfn=").or(line.strip_prefix("fn=")) {
            let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
            if !name.is_empty() {
                names.insert(id.to_owned(), number_of(name));
            }
            if line.starts_with("cfn=") {
                callee = names.get(id).copied().flatten();
            }
        } else if let Some(rest) = line.strip_prefix("calls=") {
            calls = rest.split(' ').next().and_then(|times| times.parse::<u64>().ok());
        }
    }
    totals
}

/// Returns the number of the counted function with this name; `None` for other functions.
fn number_of(name: &str) -> Option<usize> {
    let (_, rest) = name.split_once(PATH)?;
    let (block, rest) = rest.strip_prefix('b')?.split_once("::f")?;
    let place: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(block.parse::<usize>().ok()? * 16 + place.parse::<usize>().ok()?)
        .filter(|number| *number < FUNCTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inclusive_costs_are_summed_over_callers() {
        let output = "version: 1\nevents: Ir\n\n\
            fn=(1) solera_bench::work\n10 500\n\
            cfn=(2) solera_bench::virtual_cluster::counted::b1::f3::h0123456789abcdef\ncalls=2 7\n11 2000\n\
            cfn=(3) core::drop\ncalls=5 1\n12 50\n\
            fn=(4) solera_bench::other\n\
            cfn=(2)\ncalls=1 7\n20 900\n\
            fn=(2)\n7 2900\n";
        let totals = read_callgrind(output);
        assert_eq!(totals[19], (3, 2900));
        assert_eq!(totals.iter().filter(|(calls, _)| *calls > 0).count(), 1);
    }

    #[test]
    fn functions_are_found_by_their_names() {
        let number =
            |name: &str| number_of(&format!("solera_bench::virtual_cluster::counted::{name}"));
        assert_eq!(number("b0::f0"), Some(0));
        assert_eq!(number("b15::f15::h00"), Some(255));
        assert_eq!(number("b16::f0"), None);
        assert_eq!(number("read"), None);
    }
}
