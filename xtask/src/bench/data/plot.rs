//! Plots of latency against throughput as SVG, both axes logarithmic, drawn here.

use super::cells::{RATES, rate_name};
use super::figures::{Figure, Figures, P50, P99};
use super::sides::Side;
use crate::process;
use std::fmt::Write;
use std::fs;

/// The plots: file, title, and the sides, the limit last.
const PLOTS: [(&str, &str, [Side; 3]); 2] = [
    (
        "latency-synced.svg",
        "Synced: produce latency by rate",
        [Side::OttlaDisk, Side::KafkaFlush, Side::Sink],
    ),
    (
        "latency-page-cache.svg",
        "From the page cache: produce latency by rate",
        [Side::OttlaOs, Side::KafkaCache, Side::SinkDiscard],
    ),
];
/// The colour of each of the three sides.
const COLOURS: [&str; 3] = ["#0b6e4f", "#c8553d", "#7a7a7a"];

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// A line of points, each with what it did in MB/s and its time in milliseconds.
struct Line {
    label: String,
    colour: &'static str,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

/// Writes the plots for which something was measured to docs/evidence.
pub(super) fn write(figures: &Figures) -> Result<(), String> {
    for (file, title, sides) in PLOTS {
        let lines: Vec<Line> =
            sides.iter().zip(COLOURS).flat_map(|(side, colour)| lines(figures, *side, colour)).collect();
        if lines.iter().any(|line| !line.points.is_empty()) {
            let path = process::root().join("docs/evidence").join(file);
            fs::write(&path, draw(title, &lines)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// The files that [`write`] writes, as they stand in the page.
pub(super) fn images() -> String {
    PLOTS.iter().map(|(file, title, _)| format!("![{title}]({file})\n\n")).collect()
}

fn lines(figures: &Figures, side: Side, colour: &'static str) -> [Line; 2] {
    let points = |time| {
        RATES
            .iter()
            .filter_map(|rate| {
                let cell = rate_name(*rate);
                let (rate, ..) = figures.of(&cell, side, Figure::Megabytes)?;
                let (time, ..) = figures.of(&cell, side, time)?;
                Some((rate, time / 1e3))
            })
            .collect()
    };
    let label = |what| format!("{}, {what}", side.title());
    [
        Line { label: label("p99"), colour, dashed: false, points: points(P99) },
        Line { label: label("p50"), colour, dashed: true, points: points(P50) },
    ]
}

/// A logarithmic axis from one power of ten to another, on a stretch of pixels.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let least = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let most = values.fold(0.0, f64::max).log10().ceil();
        Axis { low: least, high: most.max(least + 1.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Where lines are drawn: 1, 2 and 5 of each power of ten, the power itself with a label.
    fn ticks(&self) -> impl Iterator<Item = (f64, bool)> {
        let (low, high) = (self.low as i32, self.high as i32);
        (low..=high).flat_map(move |power| {
            let one = 10f64.powi(power);
            let inner = [2.0, 5.0].map(|step| (step * one, false));
            std::iter::once((one, true)).chain(inner.into_iter().filter(move |_| power < high))
        })
    }
}

fn draw(title: &str, lines: &[Line]) -> String {
    let points =
        || lines.iter().flat_map(|line| line.points.iter().copied()).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let across = Axis::over(points().map(|(x, _)| x).collect::<Vec<_>>().into_iter(), LEFT, WIDTH - RIGHT);
    let up = Axis::over(points().map(|(_, y)| y).collect::<Vec<_>>().into_iter(), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{title}</text>\n"
    );
    grid(&mut svg, &across, &up);
    let mut ends = Vec::new();
    for line in lines.iter().filter(|line| !line.points.is_empty()) {
        curve(&mut svg, line, &across, &up, &mut ends);
    }
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, across: &Axis, up: &Axis) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let shade = |labelled| if labelled { "#bbb" } else { "#e8e8e8" };
    for (value, labelled) in across.ticks() {
        let x = across.place(value);
        let colour = shade(labelled);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"{colour}\"/>");
        if labelled {
            let y = bottom + 18.0;
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{value}</text>");
        }
    }
    for (value, labelled) in up.ticks() {
        let y = up.place(value);
        let colour = shade(labelled);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"{colour}\"/>");
        if labelled {
            let (x, y) = (LEFT - 8.0, y + 4.0);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{value}</text>");
        }
    }
    let (middle, below) = ((LEFT + right) / 2.0, HEIGHT - 14.0);
    let _ =
        writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">acknowledged, MB/s</text>");
    let height = (TOP + bottom) / 2.0;
    let _ = writeln!(
        svg,
        "<text transform=\"translate(18 {height}) rotate(-90)\" text-anchor=\"middle\">milliseconds</text>"
    );
}

/// A line with its name at its right end, moved down where another name is.
fn curve(svg: &mut String, line: &Line, across: &Axis, up: &Axis, names: &mut Vec<f64>) {
    let Line { label, colour, dashed, points } = line;
    let placed: Vec<(f64, f64)> = points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
    let path: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let dash = if *dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let _ = writeln!(
        svg,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
        path.join("L")
    );
    for (x, y) in &placed {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    if let Some((x, y)) = placed.last() {
        let mut place = *y;
        while names.iter().any(|other| (other - place).abs() < 14.0) {
            place += 2.0;
        }
        names.push(place);
        let side = WIDTH - RIGHT + 12.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {y:.1}L{side} {place:.1}\" stroke=\"{colour}\" stroke-width=\"0.5\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{label}</text>",
            side + 4.0,
            place + 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_holds_every_point_within_its_frame() {
        let points = vec![(0.9, 0.3), (30.0, 1.0), (480.0, 70.0)];
        let line = |label: &str| Line {
            label: label.to_owned(),
            colour: "#000",
            dashed: false,
            points: points.clone(),
        };
        let svg = draw("t", &[line("one"), line("two")]);
        assert_eq!(svg.matches("<circle").count(), 6);
        let places =
            svg.split("cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(places.into_iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(&x)));
        let names: Vec<&str> =
            svg.lines().filter(|line| line.contains("one<") || line.contains("two<")).collect();
        assert_eq!(names.len(), 2);
        assert_ne!(names[0].split("y=").nth(1).unwrap()[..6], names[1].split("y=").nth(1).unwrap()[..6]);
    }
}
