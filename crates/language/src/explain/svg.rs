//! Draws an explanation as SVG: the phases from left to right in the colours of their levels, with
//! their code; arrows for passed values; dashed arrows between phases that follow each other and
//! pass no values; and a mark where witnesses are written.

use std::fmt::Write;

use super::text::{THEN, note, title, values};
use super::{Phase, Transaction};

/// Sizes in pixels. A letter of the fonts below is never wider than this.
const LETTER: usize = 8;
const LINE: usize = 17;
const MARGIN: usize = 20;
const HEAD: usize = 48;
/// Longer lines of code are cut.
const COLUMNS: usize = 76;

const STYLE: &str = "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1c2330}\
.code{font:12.5px ui-monospace,Menlo,Consolas,monospace}\
.name{font-weight:600;font-size:15px}.small{font-size:12px;fill:#4a5568}\
.box{fill:#fff;stroke:#8a94a6}.arrow{fill:none;stroke:#4a5568;stroke-width:1.5}.order{stroke-dasharray:4 3}";

/// Draws transactions, one below the other, as a self-contained SVG document.
pub fn svg(transactions: &[Transaction]) -> String {
    let (mut body, mut width, mut top) = (String::new(), 2 * MARGIN, MARGIN);
    for transaction in transactions {
        let drawing = Drawing::of(transaction, top);
        width = width.max(drawing.right + MARGIN);
        top = drawing.bottom + 2 * MARGIN;
        body.push_str(&drawing.body);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" \
         viewBox=\"0 0 {width} {top}\">\n<style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#4a5568\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{top}\" fill=\"#f7f8fa\"/>\n{body}</svg>\n"
    )
}

/// Position of a phase.
struct PhaseBox {
    left: usize,
    width: usize,
}

/// Drawing of one transaction. Writing to a string cannot fail, so the results of `write!` are
/// ignored.
struct Drawing {
    body: String,
    right: usize,
    bottom: usize,
}

impl Drawing {
    fn of(transaction: &Transaction, top: usize) -> Drawing {
        let mut drawing = Drawing { body: String::new(), right: 0, bottom: top };
        let signature = cut(&transaction.signature, 2 * COLUMNS);
        drawing.text(MARGIN, top + LINE, "name", &signature);
        let top = top + 2 * LINE;
        let places = places(transaction);
        let lines = transaction.phases.iter().map(|phase| phase.code.len() + summary(phase).len());
        let height = HEAD + (lines.max().unwrap_or(0) + 2) * LINE;
        for (phase, place) in transaction.phases.iter().zip(&places) {
            drawing.phase(phase, place, top, height);
        }
        let mut lane = top + height;
        for phase in &transaction.phases {
            if let Some(to) = places.get(phase.number).filter(|_| !phase.passes_to_next()) {
                let from = &places[phase.number - 1];
                drawing.beside(from, to, top + HEAD / 2, "arrow order", THEN);
            }
            for handed in &phase.hands {
                let (from, to) = (&places[phase.number - 1], &places[handed.to - 1]);
                let label = cut(&values(handed), COLUMNS);
                if handed.to == phase.number + 1 {
                    drawing.beside(from, to, top + HEAD / 2, "arrow", &label);
                } else {
                    lane += 2 * LINE;
                    drawing.below(from, to, top + height, lane, &label);
                }
            }
        }
        let stores = &transaction.witnesses.stores;
        let witnesses = match stores.as_slice() {
            [] => format!("no witnesses: {}", transaction.witnesses.reason),
            stores => {
                format!("witnesses in {}: {}", stores.join(" and "), transaction.witnesses.reason)
            }
        };
        let bottom = lane + LINE + MARGIN / 2;
        drawing.text(MARGIN, bottom, "small", &witnesses);
        let last = places.last().map_or(0, |place| place.left + place.width);
        let longest = signature.chars().count().max(witnesses.chars().count());
        drawing.right = last.max(MARGIN + longest * LETTER);
        drawing.bottom = bottom;
        drawing
    }

    fn phase(&mut self, phase: &Phase, place: &PhaseBox, top: usize, height: usize) {
        let PhaseBox { left, width } = *place;
        let colour = phase.colour();
        let _ = writeln!(
            self.body,
            "<rect class=\"box\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n\
             <path d=\"M{left} {} v-{} q0 -6 6 -6 h{} q6 0 6 6 v{} z\" fill=\"{colour}\"/>",
            top + HEAD,
            HEAD - 6,
            width - 12,
            HEAD - 6,
        );
        let text = left + 12;
        self.text(text, top + 20, "name", &format!("{} {}", phase.number, title(phase)));
        self.text(text, top + 38, "small", note(phase));
        let mut line = top + HEAD + LINE + 4;
        for sentence in summary(phase) {
            self.text(text, line, "small", &sentence);
            line += LINE;
        }
        line += LINE / 2;
        for code in &phase.code {
            self.text(text, line, "code", &cut(code, COLUMNS));
            line += LINE;
        }
    }

    /// Draws an arrow to the next phase.
    fn beside(&mut self, from: &PhaseBox, to: &PhaseBox, y: usize, class: &str, label: &str) {
        let start = from.left + from.width;
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"M{start} {y} H{}\" marker-end=\"url(#tip)\"/>",
            to.left
        );
        self.text(start + 10, y - 6, "small", label);
    }

    /// Draws an arrow to a later phase, below the phases in between.
    fn below(&mut self, from: &PhaseBox, to: &PhaseBox, bottom: usize, lane: usize, label: &str) {
        let (start, end) = (from.left + from.width / 2, to.left + to.width / 2);
        let _ = writeln!(
            self.body,
            "<path class=\"arrow\" d=\"M{start} {bottom} V{lane} H{end} V{bottom}\" marker-end=\"url(#tip)\"/>"
        );
        self.text(start + 10, lane - 6, "small", label);
    }

    fn text(&mut self, x: usize, y: usize, class: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" xml:space=\"preserve\">{text}</text>"
        );
    }
}

/// Returns the positions of the phases, with enough space between them for the labels of their
/// arrows.
fn places(transaction: &Transaction) -> Vec<PhaseBox> {
    let mut places: Vec<PhaseBox> = Vec::new();
    let mut left = MARGIN;
    for phase in &transaction.phases {
        let head = title(phase).chars().count() + 4;
        let code = phase.code.iter().map(|line| line.chars().count().min(COLUMNS));
        let label = summary(phase).into_iter().map(|line| line.chars().count());
        let longest = code.chain(label).chain([head, note(phase).len()]).max().unwrap_or(0);
        let width = longest * LETTER + 24;
        places.push(PhaseBox { left, width });
        let next = phase.hands.iter().find(|handed| handed.to == phase.number + 1);
        let label = next.map_or(THEN.to_owned(), |handed| cut(&values(handed), COLUMNS));
        left += width + (label.chars().count() * LETTER).max(24) + 30;
    }
    places
}

/// Breaks the summary into lines about as long as the code.
fn summary(phase: &Phase) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in phase.summary.replace('`', "").split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + word.chars().count() < 44 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Escapes text for XML. Control characters, which XML cannot represent, are already escaped in
/// code.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}
