//! docs/evidence/rules.md.

use super::tests::Test;
use super::{Kind, Rule};

/// The page.
pub(super) fn text(rules: &[Rule], tests: &[Test]) -> String {
    let mut page = "# Rules and the tests that show them\n\n\
        Written by `cargo xtask rules`, which runs the tests below and writes this page only if all of them pass.\n\
        A test's name begins with the ids of what it shows. A broker of one node without access control lists cannot show\n\
        everything: then the reason stands in the last column.\n\n"
        .to_owned();
    page.push_str(&summary(rules, tests));
    page.push_str("\n\n## Rules of transactions, idempotence and offsets\n\n");
    table(&mut page, rules.iter().filter(|rule| rule.id.kind == Kind::Rule), tests);
    page.push_str(
        "\n## Faults that were reported of brokers and clients\n\n\
        Public reports, each reduced to a sequence of requests that is played to this broker.\n\n",
    );
    table(&mut page, rules.iter().filter(|rule| rule.id.kind == Kind::Report), tests);
    page
}

/// How many there are of what.
pub(super) fn summary(rules: &[Rule], tests: &[Test]) -> String {
    let of = |kind: Kind| {
        let all = rules.iter().filter(|rule| rule.id.kind == kind);
        let shown = all.clone().filter(|rule| tests.iter().any(|test| test.ids.contains(&rule.id)));
        (all.count(), shown.count())
    };
    let ((rules, shown), (reports, played)) = (of(Kind::Rule), of(Kind::Report));
    format!("{shown} of {rules} rules and {played} of {reports} reports have tests, {} in all.", tests.len())
}

fn table<'a>(page: &mut String, rules: impl Iterator<Item = &'a Rule>, tests: &[Test]) {
    page.push_str("| id | what it says | tests | what is not shown, and why |\n| --- | --- | --- | --- |\n");
    for rule in rules {
        let shown = tests.iter().filter(|test| test.ids.contains(&rule.id));
        let shown = shown.map(|test| format!("[{}](../../{})", test.name, test.path)).collect::<Vec<_>>();
        let shown = shown.join("<br>");
        page.push_str(&format!("| {} | {} | {shown} | {} |\n", rule.id, rule.title, rule.note));
    }
}
