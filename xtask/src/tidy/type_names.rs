//! Names of types: nouns for what a type holds, so no bare participles. The list of banned names stands in
//! xtask/tidy.toml.

use super::pending::settle;
use super::source::is_test_item;
use super::{Finding, Lists, Source};
use syn::visit::{self, Visit};

pub(super) fn check(sources: &[Source], lists: &Lists) -> Vec<Finding> {
    let findings = sources.iter().filter(|source| !source.is_test()).flat_map(|source| {
        banned(&source.tree, &lists.type_names).into_iter().map(|(line, name)| {
            let what = format!("a type named {name}: use a noun for what it holds");
            (source.unit(), Finding { place: format!("{}:{line}", source.file), what })
        })
    });
    settle("type_names", &lists.pending.type_names, findings.collect())
}

/// Line and name of each type with a banned name.
fn banned(tree: &syn::File, names: &[String]) -> Vec<(usize, String)> {
    let mut walk = Walk { names, found: Vec::new() };
    walk.visit_file(tree);
    walk.found
}

struct Walk<'a> {
    names: &'a [String],
    found: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(item) {
            return;
        }
        let name = match item {
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        if let Some(name) = name.filter(|name| self.names.iter().any(|banned| *name == banned)) {
            self.found.push((name.span().start().line, name.to_string()));
        }
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_participle_is_found_wherever_a_type_is_defined() {
        let source = "struct Seen;\nfn f() { enum Told {} }\n#[cfg(test)]\nmod tests { struct Seen; }\nstruct SeenIds;";
        let tree = syn::parse_file(source).unwrap();
        let names = ["Seen".to_owned(), "Told".to_owned()];
        assert_eq!(banned(&tree, &names), [(1, "Seen".to_owned()), (2, "Told".to_owned())]);
    }
}
