//! Lengths of functions and files, and what each crate says of itself.

use super::source::is_test_item;
use super::{Finding, Lists, Source};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FUNCTION_LINES: usize = 70;
const ARGUMENTS: usize = 5;
const FILE_LINES: usize = 800;
const FILE_WARN: usize = 500;

pub(super) fn check(sources: &[Source], lists: &Lists) -> (Vec<Finding>, String) {
    let mut findings = Vec::new();
    let mut lengths = Vec::new();
    let mut used = Vec::new();
    for Source { file, text, tree } in sources {
        let mut walk = Walk { test: file.contains("/tests/"), functions: Vec::new(), last_line: 0 };
        walk.visit_file(tree);
        check_file(file, walk.last_line, lists, &mut findings, &mut used);
        for function in &walk.functions {
            lengths.push(function.lines);
            check_function(file, function, lists, &mut findings, &mut used);
        }
        check_opening(file, text, &mut findings);
    }
    let listed = lists.functions.keys().chain(lists.long_files.keys());
    for stale in listed.filter(|name| !used.contains(*name)) {
        let what = "is listed in xtask/tidy.toml but within its budget: take it off the list".to_owned();
        findings.push(Finding { place: stale.clone(), what });
    }
    lengths.sort_unstable();
    let ninetieth = lengths.get(lengths.len() * 9 / 10).copied().unwrap_or(0);
    (findings, format!("{} functions, nine in ten within {ninetieth} lines", lengths.len()))
}

fn check_file(file: &str, lines: usize, lists: &Lists, findings: &mut Vec<Finding>, used: &mut Vec<String>) {
    if lines > FILE_LINES {
        if lists.long_files.contains_key(file) {
            used.push(file.to_owned());
        } else {
            let what = format!("{lines} lines without tests; {FILE_LINES} is the limit");
            findings.push(Finding { place: file.to_owned(), what });
        }
    } else if lines > FILE_WARN {
        println!("{file}: note: {lines} lines without tests; past {FILE_WARN}, think of a second file");
    }
}

fn check_function(
    file: &str,
    function: &Function,
    lists: &Lists,
    findings: &mut Vec<Finding>,
    used: &mut Vec<String>,
) {
    let long = function.lines > FUNCTION_LINES;
    let wide = function.arguments > ARGUMENTS;
    if !long && !wide {
        return;
    }
    let name = format!("{file}:{}", function.name);
    if lists.functions.contains_key(&name) {
        return used.push(name);
    }
    let what = format!(
        "{} lines and {} arguments; {FUNCTION_LINES} and {ARGUMENTS} are the limits",
        function.lines, function.arguments
    );
    findings.push(Finding { place: name, what });
}

/// A crate opens with what it is for and what it must not know.
fn check_opening(file: &str, text: &str, findings: &mut Vec<Finding>) {
    let is_root = file.ends_with("/src/lib.rs") || (file.starts_with("xtask/") && file.ends_with("main.rs"));
    let opening: String = text.lines().take_while(|line| line.starts_with("//!")).take(6).collect();
    if is_root && !opening.contains("must not know") {
        let what = "must open with what the crate is for and what it must not know".to_owned();
        findings.push(Finding { place: file.to_owned(), what });
    } else if !text.starts_with("//!") && !file.contains("/tests/") {
        let what = "must open with a //! line that says what the file is for".to_owned();
        findings.push(Finding { place: file.to_owned(), what });
    }
}

struct Function {
    name: String,
    lines: usize,
    arguments: usize,
}

struct Walk {
    test: bool,
    functions: Vec<Function>,
    last_line: usize,
}

impl Walk {
    fn record(&mut self, signature: &syn::Signature, span: proc_macro2::Span) {
        let lines = span.end().line + 1 - signature.span().start().line;
        let arguments = signature.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_))).count();
        self.functions.push(Function { name: signature.ident.to_string(), lines, arguments });
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(item) {
            return;
        }
        self.last_line = self.last_line.max(item.span().end().line);
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !self.test {
            self.record(&function.sig, function.span());
        }
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.test {
            self.record(&function.sig, function.span());
        }
        visit::visit_impl_item_fn(self, function);
    }
}
