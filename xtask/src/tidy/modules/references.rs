//! The imports and paths of a file that begin with `crate`, `self` or `super`, or with a name of the same crate.

use super::super::source::is_test_item;
use super::ModulePath;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathUse {
    /// The module it is written in.
    pub(super) module: ModulePath,
    /// Its segments; a glob import has none for the `*`.
    pub(super) segments: Vec<String>,
    /// The name under which an import brings it in; none for other paths.
    pub(super) import: Option<Import>,
    pub(super) line: usize,
}

/// What an import brings into its module.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Import {
    /// One name.
    Name(String),
    /// All names.
    Glob,
}

/// What a file contributes to its crate.
#[derive(Default)]
pub(super) struct Content {
    /// Imports and paths.
    pub(super) written: Vec<PathUse>,
    /// Modules inside the file, the file's own first.
    pub(super) modules: Vec<ModulePath>,
    /// Module files that are compiled for tests only.
    pub(super) test_modules: Vec<ModulePath>,
    /// Items by the module that defines them.
    pub(super) items: Vec<(ModulePath, String)>,
}

/// Reads a file that stands for the module `path`.
pub(super) fn read(path: ModulePath, tree: &syn::File) -> Content {
    let content = Content { modules: vec![path.clone()], ..Content::default() };
    let mut walk = Walk { path, content };
    walk.visit_file(tree);
    walk.content
}

struct Walk {
    path: ModulePath,
    content: Content,
}

impl Walk {
    fn push(&mut self, segments: Vec<String>, import: Option<Import>, line: usize) {
        self.content.written.push(PathUse { module: self.path.clone(), segments, import, line });
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| {
            let mut segments = before.to_vec();
            // `use a::{self}` names a itself.
            if before.is_empty() || name != "self" {
                segments.push(name.to_string());
            }
            segments
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => {
                let segments = with(&name.ident);
                let brings = segments.last().cloned().unwrap_or_default();
                self.push(segments, Some(Import::Name(brings)), name.span().start().line);
            }
            syn::UseTree::Rename(rename) => {
                let import = Import::Name(rename.rename.to_string());
                self.push(with(&rename.ident), Some(import), rename.span().start().line);
            }
            syn::UseTree::Glob(glob) => {
                self.push(before.to_vec(), Some(Import::Glob), glob.span().start().line);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, before));
            }
        }
    }

    /// Paths inside the arguments of a macro: `crate`, `self` or `super`, then names behind double colons.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut line = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.macro_path(&mut path, line);
                    let starts = name == "crate" || name == "self" || name == "super";
                    path.extend(starts.then(|| name.to_string()));
                    line = name.span().start().line;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.macro_path(&mut path, line);
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.macro_path(&mut path, line),
            }
            colons = 0;
        }
        self.macro_path(&mut path, line);
    }

    fn macro_path(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.push(path, None, line);
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(item) {
            if let syn::Item::Mod(module) = item {
                let path = self.path.iter().cloned().chain([module.ident.to_string()]).collect();
                self.content.test_modules.push(path);
            }
            return;
        }
        if let Some(name) = item_name(item) {
            self.content.items.push((self.path.clone(), name));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() {
            self.path.push(module.ident.to_string());
            self.content.modules.push(self.path.clone());
            visit::visit_item_mod(self, module);
            self.path.pop();
        }
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        if import.leading_colon.is_none() {
            self.use_tree(&import.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        let ours = matches!(segments[0].as_str(), "crate" | "self" | "super");
        if path.leading_colon.is_none() && ours && segments.len() > 1 {
            self.push(segments, None, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.tokens(invocation.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn item_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_paths_and_arguments_of_macros_are_read() {
        let source = "use super::a::{self, B as C};\nuse d::*;\nfn f(x: crate::E) {\n    g!(1, {self::h::<T>() : :i});\n}";
        let content = read(vec!["m".to_owned()], &syn::parse_file(source).unwrap());
        let found: Vec<String> = content
            .written
            .iter()
            .map(|one| format!("{} {:?} {}", one.segments.join("::"), one.import, one.line))
            .collect();
        assert_eq!(
            found,
            [
                "super::a Some(Name(\"a\")) 1",
                "super::a::B Some(Name(\"C\")) 1",
                "d Some(Glob) 2",
                "crate::E None 3",
                "self::h None 4",
            ]
        );
    }
}
