//! Tables as text: a head line that names the columns, then a row for each event; `#` begins a remark.

/// One row.
pub(crate) struct Row {
    /// The words before the bar: what happens.
    pub(crate) event: Vec<&'static str>,
    /// The rules that decide; `classic` is Kafka's protocol of groups, which has no list of rules.
    pub(crate) rules: Vec<&'static str>,
    /// One cell for each column.
    pub(crate) cells: Vec<&'static str>,
}

/// A table whose rows read `event words | cells | rules`.
pub(crate) struct Table {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn parse(text: &'static str) -> Table {
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut rows = lines.by_ref().filter(|line| !line.trim().is_empty()).map(row);
        let head = rows.next().unwrap();
        let rows: Vec<_> = rows.collect();
        for row in &rows {
            assert_eq!(row.cells.len(), head.cells.len(), "cells of {:?}", row.event);
            let cited =
                |rule: &&str| rule.starts_with("T-") || rule.starts_with("KIP-") || *rule == "classic";
            assert!(!row.rules.is_empty() && row.rules.iter().all(cited), "rules of {:?}", row.event);
        }
        Table { columns: head.cells, rows }
    }

    /// The cells and rules of the only row of an event.
    pub(crate) fn row(&self, event: &str) -> &Row {
        let mut found = self.rows.iter().filter(|row| row.event.join(" ") == event);
        let row = found.next().unwrap_or_else(|| panic!("the table has no row for \"{event}\""));
        assert!(found.next().is_none(), "the table has two rows for \"{event}\"");
        row
    }

    /// The cell of a row in a column.
    pub(crate) fn cell(&self, row: &Row, column: &str) -> &'static str {
        let index = self.columns.iter().position(|name| *name == column);
        row.cells[index.unwrap_or_else(|| panic!("the table has no column \"{column}\""))]
    }
}

fn row(line: &'static str) -> Row {
    let parts: Vec<Vec<&str>> = line.split('|').map(|part| part.split_whitespace().collect()).collect();
    let [event, cells, rules] = parts.try_into().unwrap_or_else(|_| panic!("not three parts: {line}"));
    Row { event, rules, cells }
}
