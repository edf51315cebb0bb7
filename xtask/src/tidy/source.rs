//! The Rust files of the crates and of xtask, parsed once for all checks.

use std::path::Path;

/// A parsed Rust file.
pub(super) struct Source {
    /// Path relative to the root of the repository.
    pub(super) file: String,
    /// Content as it stands.
    pub(super) text: String,
    /// Content as syntax tree.
    pub(super) tree: syn::File,
}

impl Source {
    /// Parses a file's text.
    pub(super) fn parse(file: &str, text: String) -> Result<Self, String> {
        let tree = syn::parse_file(&text).map_err(|e| format!("{file}: {e}"))?;
        Ok(Self { file: file.to_owned(), text, tree })
    }

    /// Whether the file is compiled for tests only, as far as its path tells.
    pub(super) fn is_test(&self) -> bool {
        self.file.contains("/tests/") || self.file.ends_with("/tests.rs")
    }

    /// The folder that stands for the file in a list of pending folders.
    pub(super) fn unit(&self) -> String {
        unit(&self.file)
    }
}

/// The folder that stands for a file in a list of pending folders: `crates/NAME`, another top folder, or `.`.
pub(super) fn unit(file: &str) -> String {
    let mut parts = file.split('/');
    let (first, second, third) = (parts.next(), parts.next(), parts.next());
    match (first, second, third) {
        (Some("crates"), Some(name), Some(_)) => format!("crates/{name}"),
        (Some(folder), Some(_), _) => folder.to_owned(),
        _ => ".".to_owned(),
    }
}

/// Reads and parses the Rust files of the product and its tools. Clients of the end-to-end tests are not measured.
pub(super) fn read_all(root: &Path, files: &[String]) -> Result<Vec<Source>, String> {
    let ours =
        |file: &&String| file.ends_with(".rs") && (file.starts_with("crates/") || file.starts_with("xtask/"));
    let read = |file: &String| {
        let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        Source::parse(file, text)
    };
    files.iter().filter(ours).map(read).collect()
}

/// Whether an item is compiled for tests only: it carries `#[cfg(test)]`.
pub(super) fn is_test_item(item: &syn::Item) -> bool {
    attributes(item).iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_crate_or_a_top_folder() {
        assert_eq!(unit("crates/core/src/lib.rs"), "crates/core");
        assert_eq!(unit("docs/guide/start.md"), "docs");
        assert_eq!(unit("README.md"), ".");
        assert_eq!(unit("crates/pure-clippy.toml"), "crates");
    }
}
