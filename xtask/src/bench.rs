//! `cargo xtask bench`: Ottla beside its peers, measured in one run, since only ratios of one run can be compared.

mod data;
mod goal;
mod page;
mod peers;
mod probe;
mod restart;
mod start;
mod txn;

/// What to measure.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Time from exec to the first acknowledged record, idle memory, size of the program.
    Start(start::Options),
    /// Produce and fetch beside Apache Kafka and beside a sink that is the limit, shape by shape.
    Data(data::Options),
    /// Transactions per second and how long they take, with raw frames and stock clients.
    Txn(txn::Options),
}

/// Measures.
pub(crate) fn run(bench: &Bench) -> Result<(), String> {
    match bench {
        Bench::Data(options) => data::run(options),
        Bench::Start(options) => start::run(options),
        Bench::Txn(options) => txn::run(options),
    }
}

/// The middle value, the smallest and the largest.
type Spread = (f64, f64, f64);

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    // Of an even number the mean of the two in the middle.
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((f64::midpoint(*low, *high), *values.first()?, *values.last()?))
}

/// As it stands in tables.
fn spread_of(spread: Option<Spread>, digits: usize) -> String {
    match spread {
        Some((middle, least, most)) => format!("{middle:.digits$} [{least:.digits$} - {most:.digits$}]"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn the_middle_of_two_is_between_them() {
        assert_eq!(spread(vec![4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(vec![9.0, 1.0, 2.0]), Some((2.0, 1.0, 9.0)));
        assert_eq!(spread(vec![9.0, 1.0, 2.0, 4.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(spread(Vec::new()), None);
    }
}
