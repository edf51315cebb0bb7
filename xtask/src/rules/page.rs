//! docs/evidence/rules.md.

use super::tests::Test;
use super::{Kind, Rule};

/// The page.
pub(super) fn text(rules: &[Rule], tests: &[Test]) -> String {
    let mut page = "# Rules and the tests that prove them\n\n\
        Written by `cargo xtask rules`, which runs the tests below and writes this page only if all of them pass. The rules are\n\
        explained in [spec/transactions.md](../spec/transactions.md). The name of a test begins with the numbers of the rules that it\n\
        proves. A broker of one node cannot show every rule; the last column gives the reason.\n\n"
        .to_owned();
    page.push_str(&summary(rules, tests));
    page.push_str("\n\n## Rules of transactions, idempotence and offsets\n\n");
    table(&mut page, rules.iter().filter(|rule| rule.id.kind == Kind::Rule), tests);
    page.push_str(
        "\n## Reported faults of brokers and clients\n\n\
        Public bug reports, each reduced to a sequence of requests that a test sends to this broker.\n\n",
    );
    table(&mut page, rules.iter().filter(|rule| rule.id.kind == Kind::Report), tests);
    page.push_str(
        "\n## Rules of security\n\n\
        Listeners, TLS, SASL and access control; [guide/security.md](../guide/security.md) explains them.\n\n",
    );
    table(&mut page, rules.iter().filter(|rule| rule.id.kind == Kind::Security), tests);
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
    let (security, secured) = of(Kind::Security);
    format!(
        "{shown} of {rules} rules of transactions, {played} of {reports} reports and {secured} of {security} rules of security \
         have tests, {} in all.",
        tests.len()
    )
}

fn table<'a>(page: &mut String, rules: impl Iterator<Item = &'a Rule>, tests: &[Test]) {
    page.push_str("| id | rule | tests | not tested, and why |\n| --- | --- | --- | --- |\n");
    for rule in rules {
        let shown = tests.iter().filter(|test| test.ids.contains(&rule.id));
        let shown = shown.map(|test| format!("[{}](../../{})", test.name, test.path)).collect::<Vec<_>>();
        let shown = shown.join("<br>");
        page.push_str(&format!("| {} | {} | {shown} | {} |\n", rule.id, rule.title, rule.note));
    }
}
