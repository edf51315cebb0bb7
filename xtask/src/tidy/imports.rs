//! Imports stand in one block, which rustfmt sorts; a module stands in `name.rs`, not in `name/mod.rs`.

use super::pending::{Pending, settle};
use super::{Finding, Source};
use syn::spanned::Spanned;

pub(super) fn check(sources: &[Source], pending: &Pending) -> Vec<Finding> {
    let blocks = sources.iter().filter_map(|source| {
        let line = second_block(&source.tree)?;
        let what = "a second block of imports: join it with the first, without a blank line, and run rustfmt";
        Some((source.unit(), Finding { place: format!("{}:{line}", source.file), what: what.to_owned() }))
    });
    let mut findings = settle("import_blocks", &pending.import_blocks, blocks.collect());
    let mod_files = sources.iter().filter(|source| is_mod_file(&source.file)).map(|source| {
        let what = "a module stands in NAME.rs beside the folder NAME, not in mod.rs".to_owned();
        (source.unit(), Finding { place: source.file.clone(), what })
    });
    findings.append(&mut settle("mod_files", &pending.mod_files, mod_files.collect()));
    findings
}

/// A `mod.rs` below tests/ is Cargo's way to share code between test programs.
fn is_mod_file(file: &str) -> bool {
    file.ends_with("/mod.rs") && !file.contains("/tests/")
}

/// The line where a second block of private imports begins. Re-exports (`pub use`) are not imports.
fn second_block(tree: &syn::File) -> Option<usize> {
    let mut end = None;
    for item in &tree.items {
        let syn::Item::Use(import) = item else { continue };
        if !matches!(import.vis, syn::Visibility::Inherited) {
            continue;
        }
        let (from, to) = (import.span().start().line, import.span().end().line);
        if end.is_some_and(|end| from > end + 1) {
            return Some(from);
        }
        end = Some(to);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> syn::File {
        syn::parse_file(text).unwrap()
    }

    #[test]
    fn a_blank_line_between_imports_is_found() {
        assert_eq!(second_block(&parse("use std::io;\n\nuse bytes::Bytes;\n")), Some(3));
        let one_block = "pub use a::A;\n\n#[cfg(unix)]\nuse bytes::{\n    Bytes,\n};\nuse std::io;\n";
        assert_eq!(second_block(&parse(one_block)), None);
    }

    #[test]
    fn a_mod_rs_of_the_product_is_found() {
        assert!(is_mod_file("crates/x/src/a/mod.rs"));
        assert!(!is_mod_file("crates/x/tests/common/mod.rs"));
        assert!(!is_mod_file("crates/x/src/a.rs"));
    }
}
