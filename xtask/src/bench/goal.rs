//! The table of goals, in the same form for every bench.

use super::{Spread, spread_of};

pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(super) struct Goal {
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) bound: Bound,
    pub(super) value: Option<Spread>,
}

impl Goal {
    fn row(&self) -> String {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => ("at least", bound),
            Bound::AtMost(bound) => ("at most", bound),
        };
        let outcome = match (&self.bound, self.value) {
            (_, None) => "not measured",
            (Bound::AtLeast(bound), Some((middle, ..))) if middle >= *bound => "met",
            (Bound::AtMost(bound), Some((middle, ..))) if middle <= *bound => "met",
            _ => "**missed**",
        };
        let Goal { name, what, value, .. } = self;
        format!("| {name} | {what} | {sign} {bound} | {} | {outcome} |\n", spread_of(*value, 2))
    }
}

pub(super) fn table(goals: &[Goal]) -> String {
    let mut text = "| | what | goal | value | |\n| --- | --- | --- | ---: | --- |\n".to_owned();
    goals.iter().for_each(|goal| text.push_str(&goal.row()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_missed_or_not_measured() {
        let goal = |bound, value: Option<f64>| Goal {
            name: "G1",
            what: "it".to_owned(),
            bound,
            value: value.map(|value| (value, 1.0, 3.0)),
        };
        let rows = [
            (goal(Bound::AtLeast(2.0), Some(2.0)), "| G1 | it | at least 2 | 2.00 [1.00 - 3.00] | met |\n"),
            (
                goal(Bound::AtLeast(2.0), Some(1.9)),
                "| G1 | it | at least 2 | 1.90 [1.00 - 3.00] | **missed** |\n",
            ),
            (goal(Bound::AtMost(2.0), Some(2.0)), "| G1 | it | at most 2 | 2.00 [1.00 - 3.00] | met |\n"),
            (
                goal(Bound::AtMost(2.0), Some(2.1)),
                "| G1 | it | at most 2 | 2.10 [1.00 - 3.00] | **missed** |\n",
            ),
            (goal(Bound::AtMost(0.5), None), "| G1 | it | at most 0.5 | - | not measured |\n"),
        ];
        for (goal, row) in rows {
            assert!(table(&[goal]).ends_with(row), "{row}");
        }
    }
}
