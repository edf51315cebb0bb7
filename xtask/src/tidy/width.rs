//! The width of comments. rustfmt holds code to 110 columns; comments may have 120.

use super::pending::{Pending, settle};
use super::{Finding, Source};

const COLUMNS: usize = 120;

pub(super) fn check(sources: &[Source], pending: &Pending) -> Vec<Finding> {
    let findings = sources.iter().flat_map(|source| {
        too_wide(&source.text).map(|(line, columns)| {
            let what = format!("a comment of {columns} columns; {COLUMNS} are the limit");
            (source.unit(), Finding { place: format!("{}:{line}", source.file), what })
        })
    });
    settle("comment_width", &pending.comment_width, findings.collect())
}

/// Number and columns of each comment line that is too wide. A line with an address may be.
fn too_wide(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let comments = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("//"));
    comments
        .map(|(number, line)| (number, line.chars().count(), line.contains("://")))
        .filter(|(_, columns, address)| *columns > COLUMNS && !address)
        .map(|(number, columns, _)| (number, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_of_121_columns_is_found() {
        let text = format!("// {}\n    // {}\nlet x = 1;", "x".repeat(117), "x".repeat(114));
        assert_eq!(too_wide(&text).collect::<Vec<_>>(), [(2, 121)]);
        let address = format!("// https://{}", "x".repeat(120));
        assert_eq!(too_wide(&address).count(), 0);
    }
}
