//! Generates random programs. They are well-typed and have flows in all directions, so the checker
//! rejects many of them.

use std::fmt::Write;

pub(crate) use solera_random::Random;

/// The stores, strongest first.
pub(crate) const STORES: [&str; 3] = ["strong", "middle", "weak"];

const HEAD: &str = "\
store strong : linearizable;
store middle : causal;
store weak : eventual;
fn twice(x: int) -> int { if x > 1000 { return x; } return x * 2; }
transaction t(
    c0: handle<counter> in strong, c1: handle<counter> in middle, c2: handle<counter> in weak,
    s0: handle<set<int>> in strong, s1: handle<set<int>> in middle, s2: handle<set<int>> in weak,
    r0: handle<register<int>> in strong, r1: handle<register<int>> in middle,
    r2: handle<register<int>> in weak, p: int, q: int,
) -> int {
";

/// Generates a program's source. If `careful`, it contains mostly legal flows.
pub(crate) fn source(random: &mut Random, careful: bool) -> String {
    let mut program = Program {
        random,
        out: HEAD.to_owned(),
        vars: 0,
        visible: Vec::new(),
        loops: 0,
        careful,
        pc: 0,
    };
    for _ in 0..3 {
        program.declare();
    }
    let count = 3 + program.random.below(6);
    for _ in 0..count {
        program.statement(3);
    }
    let result = program.int(2, 2);
    let _ = writeln!(program.out, "return {result};\n}}");
    program.out
}

struct Program<'a> {
    random: &'a mut Random,
    out: String,
    vars: usize,
    /// Variables in scope, each with the weakest store that may have influenced it.
    visible: Vec<(String, usize)>,
    loops: usize,
    careful: bool,
    /// Weakest store that may have influenced whether the current statement runs.
    pc: usize,
}

impl Program<'_> {
    fn pick<'n>(&mut self, from: &[&'n str]) -> &'n str {
        from[self.random.index(from.len())]
    }

    /// Returns a store that may be used where a store weaker than `at_most` is not allowed.
    fn store(&mut self, at_most: usize) -> usize {
        let any = self.random.below(3) as usize;
        if self.careful { any.min(at_most).max(self.pc) } else { any }
    }

    fn declare(&mut self) {
        let level = self.store(2);
        let value = self.int(2, level);
        let name = format!("v{}", self.vars);
        self.vars += 1;
        let _ = writeln!(self.out, "var {name} = {value};");
        self.visible.push((name, level));
    }

    fn var(&mut self, level: usize) -> Option<String> {
        let careful = self.careful;
        let fits: Vec<_> =
            self.visible.iter().filter(|(_, of)| !careful || *of <= level).cloned().collect();
        let count = fits.len() as u64;
        (count > 0).then(|| fits[self.random.below(count) as usize].0.clone())
    }

    /// Returns an integer expression. If the program is careful, nothing weaker than the store
    /// `level` influences it.
    fn int(&mut self, depth: u32, level: usize) -> String {
        match self.random.below(if depth == 0 { 4 } else { 11 }) {
            0 => self.pick(&["p", "q"]).to_owned(),
            1 => self.random.below(10).to_string(),
            2 | 3 => self.var(level).unwrap_or_else(|| "7".to_owned()),
            4 if self.pc <= level => {
                let store = self.store(level);
                format!("c{store}.value()")
            }
            5 if self.pc <= level => {
                let store = self.store(level);
                format!("r{store}.get().or({})", self.random.below(5))
            }
            6 if self.pc <= level => {
                let store = self.store(level);
                format!("s{store}.size()")
            }
            7 if self.pc <= level => {
                let store = self.store(level);
                format!("{}.value()", self.keyed(depth - 1, store))
            }
            8 => format!("twice({})", self.int(depth - 1, level)),
            9 => {
                let (a, b) = (self.int(depth - 1, level), self.int(depth - 1, level));
                format!("min({a}, {b})")
            }
            _ => {
                let op = self.pick(&["+", "-", "+", "%"]);
                let (a, b) = (self.int(depth.max(1) - 1, level), self.int(depth.max(1) - 1, level));
                format!("({a} {op} {b})")
            }
        }
    }

    /// Returns a handle of a key that the program computes. That of an empty key fails.
    fn keyed(&mut self, depth: u32, store: usize) -> String {
        let number = self.int(depth, store);
        let key = match self.random.below(8) {
            0 => "\"\"".to_owned(),
            1 | 2 => format!("string({number} % 3)"),
            _ => format!("\"k\" + string({number} % 3)"),
        };
        format!("(handle<counter>({key}) in {})", STORES[store])
    }

    fn condition(&mut self, level: usize) -> String {
        match self.random.below(5) {
            0 if self.pc <= level => {
                let store = self.store(level);
                let element = self.int(1, store);
                format!("s{store}.contains({element})")
            }
            1 => {
                let (a, b) = (self.int(1, level), self.int(1, level));
                let op = self.pick(&["&&", "||"]);
                format!("({a} > 2 {op} {b} < 5)")
            }
            _ => {
                let op = self.pick(&["<", ">", "==", "!=", "<="]);
                let (a, b) = (self.int(1, level), self.int(1, level));
                format!("{a} {op} {b}")
            }
        }
    }

    fn block(&mut self, depth: u32, level: usize) {
        let (visible, pc) = (self.visible.len(), self.pc);
        self.pc = pc.max(level);
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            self.statement(depth);
        }
        self.visible.truncate(visible);
        self.pc = pc;
    }

    #[expect(clippy::too_many_lines, reason = "one arm per kind of statement")]
    fn statement(&mut self, depth: u32) {
        let kind = self.random.below(if depth == 0 { 6 } else { 12 });
        match kind {
            0 => self.declare(),
            1 => {
                let level = self.store(2);
                if let Some(var) = self.var(level)
                    && let Some((_, of)) = self.visible.iter().find(|(name, _)| *name == var)
                {
                    let of = *of;
                    if !self.careful || of >= self.pc {
                        let value = self.int(2, of);
                        let _ = writeln!(self.out, "{var} = {value};");
                    }
                }
            }
            2 => {
                let store = self.store(2);
                let value = self.int(2, store);
                let counter = match self.random.below(2) {
                    0 => format!("c{store}"),
                    _ => self.keyed(1, store),
                };
                let _ = writeln!(self.out, "{counter}.add({value});");
            }
            3 => {
                let store = self.store(2);
                let op = self.pick(&["add", "add", "remove"]);
                let value = self.int(1, store);
                let _ = writeln!(self.out, "s{store}.{op}({value});");
            }
            4 => {
                let store = self.store(2);
                let value = self.int(2, store);
                let _ = writeln!(self.out, "r{store}.set({value});");
            }
            5 => {
                let level = self.store(2);
                let how = match self.random.below(if self.loops > 0 { 3 } else { 1 }) {
                    0 if self.random.below(4) == 0 => format!("return {};", self.int(1, 2)),
                    1 => "break;".to_owned(),
                    2 => "continue;".to_owned(),
                    _ => return,
                };
                let condition = self.condition(level);
                // The following statements depend on this condition.
                let _ = writeln!(self.out, "if {condition} {{ {how} }}");
                self.pc = self.pc.max(level);
            }
            6 | 7 => {
                let level = self.store(2);
                let condition = self.condition(level);
                let _ = writeln!(self.out, "if {condition} {{");
                self.block(depth - 1, level);
                if self.random.below(2) == 0 {
                    self.out.push_str("} else {\n");
                    self.block(depth - 1, level);
                }
                self.out.push_str("}\n");
            }
            8 => {
                let level = self.store(2);
                let counter = format!("i{}", self.vars);
                self.vars += 1;
                let condition = self.condition(level);
                let bound = 1 + self.random.below(4);
                let _ = writeln!(self.out, "var {counter} = 0;");
                let _ = writeln!(self.out, "while {counter} < {bound} && {condition} {{");
                let _ = writeln!(self.out, "{counter} += 1;");
                self.loops += 1;
                self.block(depth - 1, level);
                self.loops -= 1;
                self.out.push_str("}\n");
            }
            9 => {
                let store = self.store(2);
                let name = format!("x{}", self.vars);
                self.vars += 1;
                let over = match self.random.below(2) {
                    0 => format!("s{store}"),
                    _ => format!("[{}, {}]", self.int(1, store), self.int(1, store)),
                };
                let _ = writeln!(self.out, "for {name} in {over} {{");
                self.visible.push((name, store));
                self.loops += 1;
                self.block(depth - 1, store);
                self.loops -= 1;
                self.visible.pop();
                self.out.push_str("}\n");
            }
            10 => {
                let store = self.store(2);
                let name = format!("x{}", self.vars);
                self.vars += 1;
                let _ = writeln!(self.out, "match r{store}.get() {{ some({name}) => {{");
                self.visible.push((name, store));
                self.block(depth - 1, store);
                self.visible.pop();
                self.out.push_str("} none => {\n");
                self.block(depth - 1, store);
                self.out.push_str("} }\n");
            }
            _ => {
                let value = self.int(1, 2);
                let name = format!("v{}", self.vars);
                self.vars += 1;
                let _ = writeln!(self.out, "var {name} = endorse(linearizable, {value});");
                self.visible.push((name, 0));
            }
        }
    }
}
