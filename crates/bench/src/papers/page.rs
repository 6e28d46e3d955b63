//! HTML page with a paper's numbers and ours.

use std::fmt::Write as _;

use super::Row;
use super::plot::{Plot, escape};

/// A page with notes and plots.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub(crate) title: String,
    /// Descriptions of the measurements, in paragraphs.
    pub(crate) notes: Vec<String>,
    pub(crate) plots: Vec<Plot>,
}

const STYLE: &str = "body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}\
td.n{text-align:right}.met{color:#007a5a}.missed{color:#b03000;font-weight:bold}";

impl Page {
    /// Returns the page as a self-contained HTML file.
    pub fn html(&self, rows: &[Row]) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>{STYLE}</style>\n<h1>{title}</h1>\n"
        );
        html.push_str(
            "<table><tr><th>Figure<th>Quantity<th>Paper<th>Ours<th>Unit<th>Single rounds<th>Our target</tr>\n",
        );
        for row in rows {
            let paper = row.paper.map(|paper| paper.to_string()).unwrap_or_default();
            let (class, met) = match row.met {
                None => ("", ""),
                Some(true) => ("met", "met"),
                Some(false) => ("missed", "missed"),
            };
            let _ = writeln!(
                html,
                "<tr><td>{}<td>{}<td class=\"n\">{paper}<td class=\"n\">{:.2}<td>{}<td>{}<td class=\"{class}\">{met}</tr>",
                escape(row.figure),
                escape(&row.quantity),
                row.ours,
                escape(row.unit),
                row.formatted_rounds(),
            );
        }
        html.push_str("</table>\n");
        for plot in &self.plots {
            html.push_str(&plot.svg());
        }
        for note in &self.notes {
            let _ = writeln!(html, "<p>{}</p>", escape(note));
        }
        html.push_str("</html>\n");
        html
    }
}
