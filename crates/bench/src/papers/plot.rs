//! Draws plots as SVG.

use std::fmt::Write as _;

/// A series of points.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot of several series.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
/// Margins for the labels of the axes.
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 120.0;
/// Colours that colour-blind readers can distinguish.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

impl Plot {
    /// Draws the plot as SVG, with axes from zero.
    pub(crate) fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let (x_step, x_most) = scale(all().map(|(x, _)| *x).fold(0.0, f64::max));
        let (y_step, y_most) = scale(all().map(|(_, y)| *y).fold(0.0, f64::max));
        let place = |x: f64, y: f64| {
            let across = LEFT + x / x_most * (WIDTH - LEFT - RIGHT);
            (across, HEIGHT - BOTTOM - y / y_most * (HEIGHT - BOTTOM - TOP))
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        );
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(&mut svg, middle, 16.0, "middle", &self.title);
        text(&mut svg, middle, HEIGHT - 10.0, "middle", self.x);
        let turned = format!("<g transform=\"translate(14 {}) rotate(-90)\">", HEIGHT / 2.0);
        svg.push_str(&turned);
        text(&mut svg, 0.0, 0.0, "middle", self.y);
        svg.push_str("</g>\n");
        for n in 0..=(x_most / x_step).round() as u32 {
            let (x, y) = place(f64::from(n) * x_step, 0.0);
            line(&mut svg, &[(x, y), (x, TOP)], "#ddd", 1.0);
            text(&mut svg, x, y + 16.0, "middle", &number(f64::from(n) * x_step));
        }
        for n in 0..=(y_most / y_step).round() as u32 {
            let (x, y) = place(0.0, f64::from(n) * y_step);
            line(&mut svg, &[(x, y), (WIDTH - RIGHT, y)], "#ddd", 1.0);
            text(&mut svg, x - 6.0, y + 4.0, "end", &number(f64::from(n) * y_step));
        }
        for (n, series) in self.series.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let points: Vec<_> = series.points.iter().map(|(x, y)| place(*x, *y)).collect();
            line(&mut svg, &points, colour, 2.0);
            if points.len() <= 20 {
                for (x, y) in points {
                    let _ = writeln!(
                        svg,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                    );
                }
            }
            let y = TOP + 10.0 + 16.0 * n as f64;
            let x = WIDTH - RIGHT + 8.0;
            line(&mut svg, &[(x, y - 4.0), (x + 14.0, y - 4.0)], colour, 2.0);
            text(&mut svg, x + 18.0, y, "start", &series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Returns the distance between the ticks of an axis, and its end.
fn scale(most: f64) -> (f64, f64) {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(10.0 * power);
    (step, (most / step).ceil() * step)
}

fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{}k", value / 1000.0),
        value => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

fn line(svg: &mut String, points: &[(f64, f64)], colour: &str, width: f64) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        points.join(" ")
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// Escapes a text for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_few_round_ticks_and_cover_all_points() {
        for most in [0.0, 0.03, 1.0, 5.9, 6.1, 73.9, 100.0, 123_456.0, f64::NAN] {
            let (step, end) = scale(most);
            assert!(most.is_nan() || end >= most, "{most}: {end}");
            assert!((1.0..=7.0).contains(&(end / step).round()), "{most}: {step} to {end}");
        }
        assert_eq!(scale(73.9), (20.0, 80.0));
    }

    #[test]
    fn points_are_within_the_picture() {
        let series = Series { name: "a < b".to_owned(), points: vec![(1.0, 2.0), (3.0, 40.0)] };
        let svg = Plot { title: "T".to_owned(), x: "x", y: "y", series: vec![series] }.svg();
        assert!(svg.contains("a &lt; b"));
        assert!(svg.contains("<circle cx=\"440.0\" cy=\"30.0\""), "{svg}");
    }
}
